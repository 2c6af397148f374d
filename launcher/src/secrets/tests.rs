use super::*;
use proptest::prelude::*;

/// Put together here, so that no scanner takes this file for a leak.
fn key(start: &str, length: usize) -> String {
    let letters = "a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ".chars().cycle();
    start.chars().chain(letters.take(length)).collect()
}

fn hidden(text: &str) -> String {
    Secrets::default().hide(text)
}

#[test]
fn secrets_are_known_by_their_names() {
    for (name, value) in [
        ("HF_TOKEN", "abc"),
        ("token", "s3cr3t"),
        ("WANDB_API_KEY", "0123456789abcdef0123"),
        ("api-key", "x1"),
        ("apiKey", "x1"),
        ("APIKEY", "x1"),
        ("AWS_SECRET_ACCESS_KEY", "/Jalr+XUtnFEMIK7MDENG"),
        ("AWS_SECRET_ACCESS_KEY", "/JalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"),
        ("PGPASSWORD", "12345678"),
        ("db.password", "1"),
        ("passwd", "hunter2"),
        ("MYSQL_PWD", "hunter2x"),
        ("private_key", "abcdef"),
        ("CLIENT_SECRET_2", "v"),
        ("credentials", "joe:pw"),
        ("PROXY_AUTH", "joe:hunter22"),
        ("accessToken", "q"),
        ("Authorization", "Bearer abc"),
    ] {
        assert!(names::hides(name, value), "{name}={value}");
    }
}

#[test]
fn what_only_sounds_like_one_is_shown() {
    for (name, value) in [
        ("TOKENIZERS_PARALLELISM", "true"),
        ("tokenizer", "gpt2"),
        ("max_tokens", "4096"),
        ("num-tokens", "100"),
        ("eos_token", "</s>"),
        ("pad_token", "<pad>"),
        ("pad_token_id", "0"),
        ("loss_per_token", "1.5"),
        ("token", "<eos>"),
        ("use_auth_token", "true"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.7"),
        ("auth", "kerberos"),
        ("auth_type", "basic"),
        ("PWD", "/home/joe/project1"),
        ("OLDPWD", "/home/joe"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/joe/key.json"),
        ("ssh-key", "~/.ssh/id_ed25519"),
        ("token_file", "/run/token"),
        ("HF_TOKEN", ""),
        ("HF_TOKEN", "$HF_TOKEN"),
        ("key", "close"),
        ("sort_key", "date"),
        ("monkey", "george"),
        ("secretary", "anne"),
        ("n_pass", "3"),
        ("author", "jane doe"),
        ("FOXLAUNCH_RUN_ID", "run-20261130T163906Z-1a2b"),
    ] {
        assert!(!names::hides(name, value), "{name}={value}");
    }
}

#[test]
fn secrets_are_known_by_their_form() {
    let token = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", key("", 20), key("", 30));
    for secret in [
        key("AKIA", 16).to_uppercase(),
        key("ghp_", 36),
        key("github_pat_", 60),
        key("hf_", 34),
        key("sk-", 40),
        key("sk-proj-", 60),
        key("xoxb-", 30),
        key("AIza", 35),
        key("glpat-", 20),
        token,
    ] {
        for text in [secret.clone(), format!("x {secret}, y"), format!("\"{secret}\""), format!("--x={secret}")] {
            assert_eq!(hidden(&text), text.replace(&secret, HIDDEN));
        }
    }
    assert_eq!(hidden("s3://joe:pw@host/x"), "s3://joe:[secret]@host/x");
    assert_eq!(hidden("postgres://joe:p@ss@db:5432/x?y=1"), "postgres://joe:[secret]@db:5432/x?y=1");
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIx\n-----END RSA PRIVATE KEY-----";
    assert_eq!(hidden(pem), "-----BEGIN RSA PRIVATE KEY-----[secret]-----END RSA PRIVATE KEY-----");
    assert_eq!(hidden(&format!("-H 'Authorization: Bearer {}'", key("", 20))), "-H 'Authorization: [secret]'");
    let random = "q7Zx2LmP9vRt4KsW8nYd3HfJ6bGc1QaE0uTo";
    assert_eq!(hidden(&format!("--blob={random}")), "--blob=[secret]");
}

#[test]
fn ordinary_words_are_left_alone() {
    for text in [
        "python3 train.py --lr 3e-4 --data /data/ImageNet2012/train --seed=7",
        "--revision=5067397c5067397c5067397c5067397c50673979",
        "sha256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "GPU-5d9b3c1e-58b0-4a6c-9a52-3b1f3a9f1c77,MIG-5d9b3c1e-58b0-4a6c-9a52-3b1f3a9f1c77",
        "--out=/mnt/Experiments2026/Rainbow7/seeds/A1/checkpoints/Latest",
        "http://127.0.0.1:8080/metrics",
        "git@github.com:joe/x.git",
        "sk-learn-based-estimators-and-more",
        "hf_hub_download_of_something_long_enough",
        "--name=Llama3-8B-Instruct-finetuned-on-Alpaca-52k",
        "a basic understanding of many things",
        "rank 1 failed first: it exited with code 3 (after 1.234 s)",
    ] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn a_script_and_json_are_looked_through() {
    assert_eq!(
        hidden("export HF_TOKEN=abc; python x --api-key 'q q' -v"),
        "export HF_TOKEN=[secret]; python x --api-key '[secret]' -v"
    );
    assert_eq!(hidden(r#"{"password": "hunter2", "host": "db"}"#), r#"{"password": "[secret]", "host": "db"}"#);
    assert_eq!(hidden("--password=hunter2 --user=joe"), "--password=[secret] --user=joe");
    assert_eq!(hidden("é--token é"), "é--token [secret]");
}

#[test]
fn an_option_and_its_value_may_be_two_arguments() {
    let arguments: Vec<OsString> =
        ["--api-key", "hunter2hunter2", "--password", "--verbose", "-x", "sees hunter2hunter2 too"]
            .map(Into::into)
            .into();
    let secrets = Secrets::find([], arguments.clone());
    let shown = ["--api-key", "[secret]", "--password", "--verbose", "-x", "sees [secret] too"];
    assert_eq!(secrets.hide_arguments(&arguments), shown);
    assert_eq!(format!("{secrets:?}"), "Secrets(1 values)");
}

#[test]
fn a_value_of_the_environment_is_hidden_wherever_it_stands() {
    let environment = [("MY_TOKEN", "correct-horse"), ("SHORT_TOKEN", "ab"), ("HOME", "/home/joe")];
    let secrets = Secrets::find(environment.map(|(name, value)| (name.into(), value.into())), []);
    assert_eq!(secrets.hide("cannot log in with correct-horse: absent"), "cannot log in with [secret]: absent");
    assert_eq!(secrets.hide("incorrect-horses"), "incorrect-horses");
    let mut plan = serde_json::json!({"a": ["x=correct-horse"], "password": "p", "n": 3, "token": 7});
    secrets.hide_in(&mut plan);
    assert_eq!(plan, serde_json::json!({"a": ["x=[secret]"], "password": "[secret]", "n": 3, "token": 7}));
}

proptest! {
    #[test]
    fn nothing_panics_and_what_is_hidden_stays_so(text in "\\PC{0,60}", name in "[A-Za-z_-]{0,12}", value in "\\PC{0,30}") {
        for text in [text.clone(), format!("--{name}={value} {text}"), format!("{text}://{name}:{value}@{text}")] {
            let once = hidden(&text);
            prop_assert_eq!(hidden(&once), once);
        }
    }

    #[test]
    fn a_named_secret_never_shows(name in "(DB_PASSWORD|api_key|x\\.secret|HF_TOKEN)", value in "[A-Za-z0-9]{13,40}", before in "[a-z ]{0,10}") {
        for text in [format!("{before} {name}={value}"), format!("{before} --{name} {value}"), format!("{{\"{name}\": \"{value}\"}}")] {
            let shown = hidden(&text);
            prop_assert!(!shown.contains(&value), "{}", shown);
            prop_assert!(shown.contains(&name), "{}", shown);
        }
        let arguments: Vec<OsString> = vec![before.into(), format!("--{name}").into(), value.clone().into()];
        let shown = Secrets::find([], arguments.clone()).hide_arguments(&arguments).join(" ");
        prop_assert!(!shown.contains(&value));
    }
}

#[test]
fn what_a_reviewer_saw_in_a_plan_is_hidden() {
    for (text, shown) in [
        ("Cookie: sid=sibcookie; theme=dark", "Cookie: [secret]"),
        ("X-Api-Key: sibxkey", "X-Api-Key: [secret]"),
        ("https://h/x?sig=sibsig&n=3", "https://h/x?sig=[secret]&n=3"),
        ("https://h/x?n=3&X-Amz-Signature=ab12", "https://h/x?n=3&X-Amz-Signature=[secret]"),
        ("--pw=sibpw", "--pw=[secret]"),
        ("--wandb-key=sibwandb", "--wandb-key=[secret]"),
        // and what is none
        ("key: 3", "key: 3"),
        ("eos_token: </s>", "eos_token: </s>"),
        ("tokens: many words", "tokens: many words"),
        ("host:8080", "host:8080"),
        ("--sig=TERM", "--sig=TERM"),
        ("a=1&b=2", "a=1&b=2"),
    ] {
        assert_eq!(hidden(text), shown, "{text}");
    }
    let arguments = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Secrets::default().hide_arguments(&words).join(" ")
    };
    assert_eq!(arguments(&["-u", "me:sibcolon"]), "-u [secret]");
    assert_eq!(arguments(&["--wandb-key", "sibwandb"]), "--wandb-key [secret]");
    assert_eq!(arguments(&["-u", "1000:1000"]), "-u 1000:1000");
    assert_eq!(arguments(&["-u", "train.py"]), "-u train.py");
    assert_eq!(arguments(&["-H", "X-Api-Key: sibxkey"]), "-H X-Api-Key: [secret]");
}
