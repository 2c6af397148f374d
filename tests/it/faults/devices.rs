//! Ports, devices, threads, and a driver that is sick.

use crate::session::{Ended, Session};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

#[test]
fn case_33_many_jobs_share_a_host() {
    // the port that everyone's launcher uses, taken here if no one else has it
    let _taken = std::net::TcpListener::bind(("127.0.0.1", 29500));
    let session = Session::new();
    let program = "import os, socket, time\n\
        rank, port, job = os.environ['RANK'], int(os.environ['MASTER_PORT']), os.environ['FOXLAUNCH_RUN_ID']\n\
        if rank == '0':\n    \
            server = socket.socket()\n    \
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n    \
            server.bind((os.environ['MASTER_ADDR'], port))\n    \
            server.listen()\n    \
            open(f'up.{job}', 'w').write(str(port))\n    \
            server.accept()[0].recv(1)\n\
        else:\n    \
            while not os.path.exists('go'): time.sleep(0.02)\n    \
            socket.create_connection((os.environ['MASTER_ADDR'], port)).send(b'x')\n";
    session.write("meet.py", program);
    let jobs: Vec<_> =
        (0..8).map(|n| session.start(&format!("--cpu --nproc 2 run --out job-{n} meet.py"), "")).collect();
    let mut ports = Vec::new();
    let mut jobs: Vec<_> = jobs.into_iter().enumerate().collect();
    for (n, job) in &mut jobs {
        let name = format!("up.job-{n}");
        job.wait_until("a port", || !session.read(&name).is_empty());
        ports.push(session.read(&name).parse::<u16>().unwrap());
    }
    session.write("go", "");
    jobs.into_iter().for_each(|(_, job)| {
        job.end().assert_code(0);
    });
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() == 8 && !ports.contains(&29500), "{ports:?}");
    session.assert_clean();
}

/// A driver's library with four devices, or one that never answers.
const DRIVER: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
int nvmlInit_v2(void) {
#ifdef SICK
    for (;;) pause();
#endif
    return 0;
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "no"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = (void *)(long)(i + 1); return i < 4 ? 0 : 6; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%ldabc", (long)d - 1); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { snprintf(s, n, "Fox"); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *d, memory *m) { m->total = m->free = 1 << 30; m->reserved = m->used = 0; return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, pci *p) { memset(p, 0, sizeof *p); strcpy(p->bus_id, "0000:00:00.0"); return 0; }
"#;

/// Makes that library in the session's folder; false, with a word, where there is no C compiler.
fn driver(session: &Session, flags: &[&str]) -> bool {
    session.write("driver.c", DRIVER);
    let library = session.path("libnvidia-ml.so.1");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(library).args(flags).arg(session.path("driver.c"));
    let made = compiler.output();
    let works = made.as_ref().is_ok_and(|made| made.status.success());
    if !works {
        eprintln!("SKIPPED: no C compiler (cc) makes the library of a driver: {made:?}");
    }
    works
}

/// `foxlaunch` on a machine with that driver, below an inherited list of devices.
fn with_driver(session: &Session, words: &str, visible: Option<&str>) -> Output {
    let mut command = session.command(words);
    command.env("LD_LIBRARY_PATH", session.folder());
    visible.into_iter().for_each(|list| {
        command.env("CUDA_VISIBLE_DEVICES", list);
    });
    command.output().unwrap()
}

/// The devices of the ranks, or the refusal.
fn planned(session: &Session, visible: Option<&str>, gpus: &str) -> Result<Vec<String>, Ended> {
    let output = with_driver(session, &format!("--gpus {gpus} --visible own --dry-run run -- true"), visible);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = Ended { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) };
    if ended.code != 0 {
        return Err(ended);
    }
    let plan: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let ranks = plan["workers"].as_array().unwrap_or_else(|| panic!("{plan:#}"));
    Ok(ranks
        .iter()
        .map(|rank| {
            rank["environment"]["CUDA_VISIBLE_DEVICES"].as_str().unwrap_or_else(|| panic!("{rank:#}")).to_owned()
        })
        .collect())
}

#[test]
fn case_35_a_device_list_is_understood_or_refused_by_name() {
    let session = Session::new();
    if !driver(&session, &[]) {
        return;
    }
    for (visible, gpus, devices) in [
        (None, "all", &["0", "1", "2", "3"][..]),
        (None, "GPU-2abc", &["GPU-2abc"]),
        (None, "0,GPU-3a", &["0", "GPU-3a"]),
        (Some("GPU-1abc,3"), "all", &["GPU-1abc", "3"]),
        (Some("MIG-GPU-1/0/0"), "0", &["MIG-GPU-1/0/0"]),
        (Some("0, 1"), "all", &["0", "1"]),
    ] {
        assert_eq!(planned(&session, visible, gpus).unwrap(), devices, "{visible:?} {gpus}");
    }
    for (list, word) in [
        ("0,0", "\"0\" stands there twice"),
        ("0,,1", "blank"),
        ("0,1,", "blank"),
        ("1,-1,0", "\"-1\""),
        ("1gpu", "\"1gpu\""),
        ("GPU-0abc,GPU-0abc", "twice"),
        ("9", "9"),
    ] {
        for (visible, gpus) in [(Some(list), "all"), (None, list)] {
            let refused = planned(&session, visible, gpus).unwrap_err();
            assert!([2, 69].contains(&refused.code), "{list}: {refused:?}");
            assert!(refused.err.contains(word) && !refused.err.contains("panicked"), "{list}: {refused:?}");
        }
    }
    for none in ["", "-1"] {
        let refused = planned(&session, Some(none), "0").unwrap_err();
        assert!(refused.err.contains("no device is visible"), "{none:?}: {refused:?}");
    }
}

#[test]
fn case_36_an_inherited_list_decides_what_a_number_means() {
    let session = Session::new();
    if !driver(&session, &[]) {
        return;
    }
    assert_eq!(planned(&session, Some("3,1,2"), "0,2").unwrap(), ["3", "2"]);
    assert_eq!(planned(&session, Some("2,3"), "all").unwrap(), ["2", "3"]);
    assert_eq!(planned(&session, Some("2,3"), "GPU-3abc").unwrap(), ["GPU-3abc"]);
    for gpus in ["2", "GPU-0abc"] {
        let refused = planned(&session, Some("2,3"), gpus).unwrap_err();
        assert!(refused.code == 69 && refused.err.contains("2,3"), "{gpus}: {refused:?}");
    }
}

#[test]
fn case_39_threads_are_shared_among_the_ranks() {
    crate::launching::the_users_thread_counts_stay();
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let cores = std::thread::available_parallelism().unwrap().get();
    let script = "echo $OMP_NUM_THREADS $RAYON_NUM_THREADS > threads.$RANK";
    let each = |command: Command| {
        session.start_command(command).end().assert_code(0);
        (session.read("threads.0"), session.read("threads.1"))
    };
    let mut all = session.command("--cpu --nproc 2 run -- sh -c");
    all.arg(script);
    let share = format!("{0} {0}\n", (cores / 2).max(1));
    assert_eq!(each(all), (share.clone(), share));
    let mut one = Command::new("taskset");
    one.args(["-c", "0", launcher]).args("--cpu --nproc 2 run -- sh -c".split(' ')).arg(script);
    assert_eq!(each(one), ("1 1\n".to_owned(), "1 1\n".to_owned()), "one core is allowed, whatever the host has");
}

#[test]
fn case_46_a_driver_that_never_answers_is_not_waited_for() {
    let session = Session::new();
    if !driver(&session, &["-DSICK"]) {
        return;
    }
    for (words, code) in [("doctor", 0), ("--dry-run train dqn", 0), ("--gpus 0 --dry-run run -- true", 69)] {
        let begin = Instant::now();
        let output = with_driver(&session, words, None);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(begin.elapsed() < 5 * Duration::from_secs(10), "{words}: {:?}", begin.elapsed());
        assert!(text.contains("did not answer"), "{words}: {text}");
        assert!(output.status.code() == Some(code) || words == "doctor", "{words}: {output:?}");
    }
}
