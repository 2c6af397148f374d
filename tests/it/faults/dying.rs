//! Whatever dies, nothing of it stays.

use crate::session::{Session, children, kill, state};
use crate::watching::{BUSY_FAMILY, PROMISED};
use nix::libc;
use nix::sys::signal::Signal::{SIGKILL, SIGTERM};
use std::path::PathBuf;

const STUB: &str = env!("CARGO_BIN_EXE_fox-test-stub");

#[test]
fn case_08_nothing_survives_the_launcher() {
    let session = Session::new();
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", BUSY_FAMILY);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    assert!(session.survivors().len() >= 6, "{:?}", session.survivors());
    job.signal(SIGKILL);
    session.assert_gone_within(PROMISED);
    assert_eq!(job.end().code, -9);
    session.assert_clean();
}

#[test]
fn case_09_a_quiet_launcher_kills_no_healthy_worker() {
    // The thread that started a worker must live on: a death signal follows the thread. Pools let an idle one go
    // after some ten seconds.
    let session = Session::new();
    let script = "sleep 12; [ $FOXLAUNCH_ATTEMPT = 1 ] && [ $RANK = 0 ] && exit 9; echo done >> done.$RANK";
    session.sh("--cpu --nproc 2 --max-restarts 1", script).assert_code(0);
    assert_eq!(session.read("done.0"), "done\n");
    let events = session.read("run/events.jsonl");
    assert!(!events.contains("signal 9"), "{events}");
}

#[test]
fn case_11_what_a_shell_started_ends_with_it() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2", "[ $RANK = 1 ] && exit 1; sh -c 'exec sleep 1000' & wait");
    ended.assert_code(1);
    session.assert_clean();
}

#[test]
fn case_12_grandchildren_in_sessions_of_their_own_are_ended_and_named() {
    let session = Session::new();
    let script = "if [ $RANK = 0 ]; then setsid sh -c 'trap \"\" TERM HUP; echo $$ > pid; while :; do sleep 0.1; done' & \
        while [ ! -s pid ]; do sleep 0.02; done; fi; exit 0";
    let ended = session.sh("--cpu --nproc 2", script);
    ended.assert_code(0);
    let pid = session.read("pid");
    let named = format!("left processes behind, which are ended: {} (", pid.trim());
    assert!(ended.err.contains(&named) || ended.err.contains(&format!(", {} (", pid.trim())), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn one_whose_name_is_no_text_is_found_and_named_without_an_escape() {
    let session = Session::new();
    let script = r#"setsid sh -c 'printf "\377\033[31mx" > /proc/$$/comm; echo $$ > pid; while :; do sleep 0.1; done' &
        while [ ! -s pid ]; do sleep 0.02; done; exit 0"#;
    let ended = session.sh("--cpu", script);
    ended.assert_code(0);
    let named = format!("{} (\u{fffd}\u{fffd}[31mx)", session.read("pid").trim());
    assert!(ended.err.contains(&named), "{}", ended.err);
    // the cgroup alone would end it too, after all else was tried
    assert!(!ended.err.contains("even when killed"), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn however_many_were_left_they_are_ended_and_the_first_are_named() {
    let session = Session::new();
    let script = "for i in $(seq 4); do (setsid sh -c 'while :; do (sleep 0.01 &); done' &); done; \
        for i in $(seq 40); do sleep 1000 & done; exit 0";
    let ended = session.sh("--cpu", script);
    ended.assert_code(0);
    let line = ended.err.lines().find(|line| line.contains("left processes behind")).expect("they are named");
    assert!(line.len() < 1000 && line.ends_with(" more"), "{line}");
    session.assert_clean();
}

#[test]
fn a_starter_that_ignores_its_children_does_not_make_us_deaf() {
    use std::os::unix::process::CommandExt;
    let session = Session::new();
    let mut command = session.command("--cpu --nproc 2 run --out run -- sh -c");
    command.arg("exit 5");
    // SAFETY: signal(2) is async-signal-safe, and installs no handler here.
    unsafe {
        command.pre_exec(|| {
            nix::sys::signal::signal(nix::sys::signal::Signal::SIGCHLD, nix::sys::signal::SigHandler::SigIgn)?;
            Ok(())
        });
    }
    session.start_command(command).end().assert_code(5);
    session.assert_clean();
}

/// What the descriptors of `pid` are.
fn descriptors(pid: u32) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    folder.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

#[test]
fn case_13_no_descriptor_of_ours_is_inherited() {
    let session = Session::new();
    let script = "sh -c 'echo $$ > child.$0; while :; do :; done' $RANK & echo $$ > worker.$RANK; wait";
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", script);
    let pid = |job: &mut crate::session::Running, name: &str| -> u32 {
        job.wait_for(name, "\n");
        session.read(name).trim().parse().unwrap()
    };
    // what whoever started this test holds open for all that it starts
    let given = descriptors(std::os::unix::process::parent_id());
    for rank in 0..2 {
        for name in ["child", "worker"] {
            let pid = pid(&mut job, &format!("{name}.{rank}"));
            let all = descriptors(pid);
            // its input, and its two outputs; what else a shell opens is its own file
            let text = |path: &PathBuf| path.to_string_lossy().into_owned();
            let ours: Vec<_> = all.iter().filter(|fd| !given.contains(fd)).map(text).collect();
            let ours: Vec<_> = ours.into_iter().filter(|path| path.contains(':')).collect();
            assert_eq!(ours.len(), 2, "{name} of rank {rank}: {all:?}");
            assert!(ours.iter().all(|path| path.starts_with("pipe:")), "{name} of rank {rank}: {all:?}");
        }
    }
    let ends = |pid: u32| -> Vec<PathBuf> {
        let all = descriptors(pid).into_iter().filter(|path| path.to_string_lossy().contains(':'));
        all.filter(|path| !given.contains(path)).collect()
    };
    let (zero, one) = (ends(pid(&mut job, "worker.0")), ends(pid(&mut job, "worker.1")));
    assert!(zero.iter().all(|end| !one.contains(end)), "ranks share no pipe: {zero:?} {one:?}");
    job.signal(SIGKILL);
    session.assert_gone_within(PROMISED);
    drop(job);
    session.assert_clean();
}

/// Makes this thread the tracer of `pid`: when that is killed, its parent learns nothing of it until we let it go.
fn trace(pid: u32) -> bool {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: PTRACE_SEIZE takes no pointer that is read or written.
    unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid as libc::pid_t, none, none) == 0 }
}

#[test]
fn case_15_the_wait_for_a_killed_worker_is_bounded() {
    // A worker that is stuck in a driver cannot be had here. One whose end is kept from us looks the same: it was
    // killed, and no end is seen.
    let session = Session::new();
    let words = format!("--cpu --nproc 2 --max-restarts 3 --peer-grace 300ms run --out run -- {STUB} traceable");
    let mut job = session.start(&words, "");
    job.wait_for("run/events.jsonl", "\"event\":\"first_step\",\"attempt\":1,\"rank\":1");
    let workers = children(job.supervisor());
    if !trace(workers[1]) {
        eprintln!("SKIPPED: this machine lets no test trace a worker (kernel.yama.ptrace_scope)");
        return;
    }
    let begin = std::time::Instant::now();
    kill(workers[0], SIGKILL);
    let ended = job.end();
    ended.assert_code(137);
    // the grace, and four seconds after the kill
    assert!(begin.elapsed() < 5 * std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(state(workers[1]), Some('Z'), "its end was kept from its parent");
    let named = format!("process {} (rank 1, state Z", workers[1]);
    assert!(ended.err.contains(&named) && ended.err.contains("does not end, even when killed"), "{}", ended.err);
    assert_eq!(session.read("run/events.jsonl").matches("\"event\":\"begin\"").count(), 1, "not started again");
}

#[test]
fn a_frozen_worker_is_not_waited_for_either() {
    // The first kind of cgroup's freezer holds a process where no signal reaches it, as a driver would.
    let session = Session::new();
    let cgroup = PathBuf::from(format!("/sys/fs/cgroup/freezer/fox-test-{}", std::process::id()));
    if std::fs::create_dir(&cgroup).is_err() {
        eprintln!("SKIPPED: this machine lets no test freeze a process (cgroup v1, {})", cgroup.display());
        return;
    }
    let freezer = |word: &str| std::fs::write(cgroup.join("freezer.state"), word).unwrap();
    let script = format!(
        "if [ $RANK = 0 ]; then echo $$ > {}/cgroup.procs; echo up > up; while :; do sleep 0.1; done; fi; \
        while [ ! -e go ]; do sleep 0.02; done; exit 3",
        cgroup.display()
    );
    let mut job = session.start("--cpu --nproc 2 --peer-grace 500ms run --out run -- sh -c", &script);
    job.wait_for("up", "up");
    freezer("FROZEN");
    let begin = std::time::Instant::now();
    session.write("go", "");
    let ended = job.end();
    let took = begin.elapsed();
    freezer("THAWED");
    ended.assert_code(3);
    // the grace and five seconds are promised
    assert!(took < 5 * std::time::Duration::from_millis(5500), "{took:?}");
    assert!(ended.err.contains("does not end, even when killed; it may still hold its device"), "{}", ended.err);
    assert_eq!(ended.err.matches("state D").count(), ended.err.matches("may still hold its device").count());
    session.assert_gone_within(PROMISED);
    let gone = crate::session::until(5 * PROMISED, || std::fs::remove_dir(&cgroup).is_ok());
    assert!(gone, "{}", cgroup.display());
}

#[test]
fn an_error_file_that_is_a_pipe_is_not_waited_for() {
    let session = Session::new();
    let ended = session.sh("--cpu", "mkfifo $TORCHELASTIC_ERROR_FILE; exit 3");
    ended.assert_code(3);
    session.assert_clean();
}

#[test]
fn case_44_no_shared_memory_is_left() {
    // Ours is a memory file without a name, so that there is nothing to remove; names are counted all the same.
    let session = Session::new();
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        // fuzzers, which may run beside the tests, have folders of their own there
        names.retain(|name| !name.contains("-fuzz-") && (name.contains("fox") || name.starts_with("nccl-")));
        names.sort();
        names
    };
    let before = names();
    for n in 0..20 {
        let mut job = session.start(&format!("--cpu --nproc 2 run --out run-{n} -- {STUB} traceable"), "");
        job.wait_for(&format!("run-{n}/events.jsonl"), "\"event\":\"first_step\"");
        match n % 4 {
            0 => kill(job.supervisor(), SIGKILL),
            1 => kill(children(job.supervisor())[0], SIGKILL),
            2 => job.signal(SIGTERM),
            _ => job.signal(SIGKILL),
        }
        job.end();
    }
    session.assert_clean();
    assert_eq!(names(), before);
}
