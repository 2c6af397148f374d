//! What looks like a secret reaches the workers, and nothing that is written down.

use crate::session::Session;
use std::path::Path;

/// Every file below `folder` that holds `text`, whatever else is in it.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if std::fs::read(&path).unwrap_or_default().windows(text.len()).any(|part| part == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_program_gets_its_secrets_and_nothing_else_does() {
    let session = Session::new();
    // Put together here, so that no scanner takes this file for a leak.
    let key = ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"].concat();
    let password = "correct-horse-7";
    let script = "[ \"$DB_PASSWORD\" = correct-horse-7 ] && printf %s \"$2\" | cksum > sum; echo step 1 > $FOXLAUNCH_PROGRESS; \
        echo \"$4\" > $FOXLAUNCH_PROGRESS; exit 3";
    let mut command = session.command("--json --cpu --nproc 2 run --out run -- sh -c");
    command.args([script, "name", "--api-key", &key, "--password", password, "TOKEN=tok-en-12345"]);
    let output = command.env("DB_PASSWORD", password).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let sum = std::process::Command::new("sh").args(["-c", "printf %s \"$1\" | cksum", "x", &key]).output().unwrap();
    assert_eq!(session.read("sum"), String::from_utf8(sum.stdout).unwrap());
    for secret in [key.as_str(), password, "tok-en-12345"] {
        // The program's own words in its log would be its own; it printed none.
        let leaks = holding(&session.path("run"), secret);
        // The script itself names the password, so that it can compare.
        assert!(leaks.is_empty(), "{secret}: {leaks:?}");
        assert!(holding(&session.runtime(), secret).is_empty(), "{secret}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains(secret), "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains(secret), "{output:?}");
    }
    let plan: serde_json::Value = serde_json::from_str(&session.read("run/plan.json")).unwrap();
    let arguments: Vec<&str> = plan["arguments"].as_array().unwrap().iter().filter_map(|v| v.as_str()).collect();
    assert_eq!(arguments[3..], ["--api-key", "[secret]", "--password", "[secret]", "TOKEN=[secret]"]);
    let dry = session.run(&format!("--dry-run --cpu run -- prog --token={key}"));
    assert!(dry.assert_code(0).out.contains("--token=[secret]") && !dry.out.contains(&key), "{}", dry.out);
}

#[test]
fn a_secret_setting_is_used_and_not_kept() {
    let session = Session::new();
    let password = "hunter2-hunter2";
    // A folder whose name is an address with a password: data as any other.
    let folder = session.path(&format!("s3:/joe:{password}@host"));
    std::fs::create_dir_all(&folder).unwrap();
    let days = (0..400).map(|day| {
        format!(
            "{}000000000,10{}.5,10{}.9,10{}.1,10{}.6,100\n",
            1_600_000_000 + 86_400 * day,
            day % 7,
            day % 7,
            day % 7,
            day % 7
        )
    });
    std::fs::write(folder.join("a.csv"), format!("ts_event,open,high,low,close,volume\n{}", days.collect::<String>()))
        .unwrap();
    let data = format!("data.path={}/s3://joe:{password}@host", session.folder().display());
    let mut command = session.command("--cpu --nproc 2 train dqn --smoke --out run --set");
    let output = command.arg(&data).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(!err.contains(password) && !String::from_utf8_lossy(&output.stdout).contains(password), "{err}");
    let leaks = holding(&session.path("run"), password);
    assert!(leaks.is_empty(), "{leaks:?}");
    assert!(session.read("run/config.toml").contains("joe:[secret]@host"), "{}", session.read("run/config.toml"));

    // It goes on only if the secret is given again.
    let again = session.run("--cpu --nproc 2 train dqn --resume run");
    assert!(again.assert_code(78).last_line().contains("give it again with --set"), "{}", again.err);
    let mut command = session.command("--cpu --nproc 2 train dqn --resume run --set");
    let output = command.arg(&data).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_refusal_does_not_repeat_a_secret() {
    let session = Session::new();
    let mut command = session.command("--cpu train dqn --set");
    let output = command.arg("train.seed=postgres://joe:hunter2-hunter2@db").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{err}");
    assert!(err.contains("train.seed takes a whole number") && !err.contains("hunter2"), "{err}");
}
