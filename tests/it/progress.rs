//! Progress of programs that link nothing of ours.

use crate::session::Session;

#[test]
fn steps_of_a_program_are_shown_and_recorded() {
    let session = Session::new();
    let script = "for i in 1 2 3; do echo \"step $i/3 loss=0.2$i\" > $FOXLAUNCH_PROGRESS; done";
    let ended = session.sh("--cpu --nproc 2", script);
    ended.assert_code(0);
    assert!(ended.err.contains("3/3 steps (100%)") && ended.err.contains("loss 0.230"), "{}", ended.err);
    let events = session.read("run/events.jsonl");
    for rank in 0..2 {
        assert!(events.contains(&format!("\"event\":\"first_step\",\"attempt\":1,\"rank\":{rank}")), "{events}");
    }
    session.assert_clean();
}

#[test]
fn the_readmes_python_works() {
    let readme = crate::source::text("README.md");
    let (_, after) = readme.split_once("```python\n").expect("README.md shows Python");
    let lines: Vec<&str> = after.split("```").next().unwrap().lines().collect();
    let [import, open, print] = lines[..] else { panic!("three lines: {lines:?}") };
    let session = Session::new();
    session
        .write("train.py", format!("{import}\n{open}\nfor step in range(1, 6):\n    loss = 1 / step\n    {print}\n"));
    let ended = session.run("--cpu run --out run train.py");
    // Between the two a rate may stand.
    let last = ended.assert_code(0).last_line();
    assert!(last.starts_with("5 steps  ") && last.ends_with("loss 0.200"), "{}", ended.err);
    // Without foxlaunch the same program runs too.
    let alone = std::process::Command::new("python3").arg(session.path("train.py")).output().unwrap();
    assert!(alone.status.success(), "{alone:?}");
}

#[test]
fn a_program_that_stands_still_hangs() {
    let session = Session::new();
    let script = "exec 3> $FOXLAUNCH_PROGRESS; i=0; while :; do \
        if [ $RANK = 0 ] || [ $i -lt 3 ]; then i=$((i+1)); echo \"step $i\" >&3; fi; sleep 0.05; done";
    let ended = session.sh("--cpu --nproc 2 --hang-timeout 2s", script);
    ended.assert_code(foxlaunch_shared::exit::HANG);
    assert!(ended.err.contains("rank 1 hangs: no progress for") && ended.err.contains("at step 3"), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn nonsense_is_told_once_and_ends_nothing() {
    let session = Session::new();
    let script = "for i in 1 2 3; do printf 'epoch %s\\377\\n' $i > $FOXLAUNCH_PROGRESS; done";
    let ended = session.sh("--cpu", script);
    ended.assert_code(0);
    assert_eq!(ended.err.matches("FOXLAUNCH_PROGRESS").count(), 1, "{}", ended.err);
    session.assert_clean();
}

#[test]
fn a_flood_of_steps_comes_through_to_the_last() {
    let session = Session::new();
    let ended = session.sh("--cpu", "seq 1 300000 | sed 's/^/step /' > $FOXLAUNCH_PROGRESS");
    assert!(ended.assert_code(0).err.contains("300 000 steps"), "{}", ended.err);
}

#[test]
fn each_attempt_has_a_pipe_of_its_own() {
    let session = Session::new();
    let script = "echo step $FOXLAUNCH_ATTEMPT > $FOXLAUNCH_PROGRESS; [ $FOXLAUNCH_ATTEMPT = 2 ]";
    session.sh("--cpu --nproc 2 --max-restarts 1", script).assert_code(0);
    let events = session.read("run/events.jsonl");
    assert!(events.contains("\"event\":\"first_step\",\"attempt\":2,\"rank\":1"), "{events}");
    session.assert_clean();
}
