//! What people's fingers know from torchrun.

use crate::session::Session;

#[test]
fn a_file_needs_no_verb() {
    let session = Session::new();
    session.write("hello.py", "import os, sys\nprint('hello', os.environ['RANK'], *sys.argv[1:])\n");
    let ended = session.run("--cpu --nproc_per_node=2 --standalone hello.py --out x --lr 3");
    let mut lines: Vec<&str> = ended.assert_code(0).out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] hello 0 --out x --lr 3", "[1] hello 1 --out x --lr 3"]);
    let missing = session.run("--cpu --nproc 2 missing.py");
    assert!(missing.assert_code(2).err.contains("missing.py"), "{}", missing.err);
    session.assert_clean();
}

#[test]
fn a_module_is_run_with_or_without_the_verb() {
    let session = Session::new();
    std::fs::create_dir(session.path("pkg")).unwrap();
    session.write("pkg/train.py", "import sys\nprint(__name__, __package__, *sys.argv[1:])\n");
    for line in ["--cpu -m pkg.train --lr 3", "--cpu run --out a -m pkg.train --lr 3"] {
        assert_eq!(session.run(line).assert_code(0).out, "__main__ pkg --lr 3\n", "{line}");
    }
}

#[test]
fn no_python_runs_the_file_itself() {
    let session = Session::new();
    session.write("plain.py", "print('hello')\n");
    let ended = session.run("--cpu run --out a --no-python ./plain.py");
    assert!(ended.assert_code(126).last_line().contains("executable bit"), "{}", ended.err);
}

#[test]
fn workers_are_counted_as_torchrun_counts_them() {
    let session = Session::new();
    let cores = std::thread::available_parallelism().unwrap().get();
    let ended = session.run("--dry-run --nproc-per-node cpu run -- true");
    let plan: serde_json::Value = serde_json::from_str(&ended.assert_code(0).out).unwrap();
    assert_eq!(plan["world_size"], cores);
    let none = session.run("--cpu --nproc-per-node gpu run -- true");
    assert!(none.assert_code(2).err.contains("--nproc gpu"), "{}", none.err);
    let wrong = session.run("--nproc-per-node several run -- true");
    assert!(wrong.assert_code(2).err.contains("gpu, cpu or auto"), "{}", wrong.err);
    let hosts = session.run("--cpu --nnodes 2 run -- true");
    assert!(hosts.assert_code(2).err.contains("several hosts are not supported"), "{}", hosts.err);
}

#[test]
fn that_tee_changes_nothing_is_said_once() {
    let session = Session::new();
    let ended = session.run("--cpu --nproc 2 -t 3 -r 1:3 run --out a -- echo hello");
    ended.assert_code(0);
    assert_eq!(ended.err.matches("--tee and --redirects change nothing").count(), 1, "{}", ended.err);
    assert_eq!(session.read("a/logs/attempt-1/rank-1.log"), "hello\n");
    assert_eq!(session.run("--cpu -q --tee 3 run --out b -- true").assert_code(0).err, "");
}
