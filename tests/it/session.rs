//! A folder, a launcher and the means to see what is left of it.

use foxlaunch_shared::run_dir::RunDir;
use nix::sys::signal::{SigHandler, Signal, signal};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No launch may take longer, whatever else runs here: a launcher that hangs is a failed test, not a hung suite.
const LIMIT: Duration = Duration::from_secs(240);

/// One test's own corner: a folder, and a mark in the environment by which every process of it is found.
pub(crate) struct Session {
    folder: tempfile::TempDir,
    mark: String,
}

/// A launcher that runs, or its end.
pub(crate) struct Running<'a> {
    session: &'a Session,
    child: Option<Child>,
}

impl Session {
    pub(crate) fn new() -> Session {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("FOX_TEST_ID={}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Session { folder: tempfile::tempdir().expect("a temporary folder"), mark }
    }

    /// Where the launcher runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("write into the session's folder");
        path
    }

    /// A script that can be executed. Another process writes it: a fork of ours that happened just then would hold it open,
    /// and what is open for writing cannot be executed.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let (text, path) = (self.write(&format!("{name}.text"), text), self.path(name));
        let installed = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(installed.expect("coreutils").success(), "{name}");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// The run folder `name`.
    pub(crate) fn run_dir(&self, name: &str) -> RunDir {
        RunDir::new(self.path(name))
    }

    /// `foxlaunch` with these words, split at blanks.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fox-test-launcher"));
        command.args(words.split_whitespace()).stdin(Stdio::null());
        self.surround(&mut command);
        command
    }

    /// A shell's script in a terminal of its own, which reads from and writes to this command's streams, and whose
    /// exit code it has.
    pub(crate) fn terminal(&self, script: &str) -> Command {
        let mut command = Command::new("script");
        command.args(["-qefc", script, "/dev/null"]).stdin(Stdio::null());
        self.surround(&mut command);
        command
    }

    /// Runs `command` in this session's folder, with its mark and its own places for what launchers leave.
    fn surround(&self, command: &mut Command) {
        hear_all(command);
        let (name, value) = self.mark.split_once('=').expect("a mark has a value");
        command
            .current_dir(self.folder())
            .env(name, value)
            .env("FOXLAUNCH_WORKER", env!("CARGO_BIN_EXE_fox-test-worker"))
            .env("TMPDIR", self.scratch())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env_remove("CUDA_VISIBLE_DEVICES");
    }

    /// The folder in which the launcher makes its sockets' folder.
    pub(crate) fn scratch(&self) -> PathBuf {
        let path = self.path("tmp");
        std::fs::create_dir_all(&path).expect("a folder for sockets");
        path
    }

    /// The folder in which the launcher writes down which jobs run.
    pub(crate) fn runtime(&self) -> PathBuf {
        let path = self.path("runtime");
        std::fs::create_dir_all(&path).expect("a folder for the list of jobs");
        path
    }

    /// Starts `foxlaunch` with these words, and the last one whole, as a shell's script.
    pub(crate) fn start(&self, words: &str, last: &str) -> Running<'_> {
        let mut command = self.command(words);
        if !last.is_empty() {
            command.arg(last);
        }
        self.start_command(command)
    }

    /// Starts a command that [`Session::command`] made, or another, whose process then counts as the launcher.
    pub(crate) fn start_command(&self, mut command: Command) -> Running<'_> {
        if !command.get_envs().any(|(name, _)| self.mark.starts_with(&*name.to_string_lossy())) {
            self.surround(&mut command);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { session: self, child: Some(command.spawn().expect("start the launcher")) }
    }

    /// Runs `foxlaunch` with these words to its end.
    pub(crate) fn run(&self, words: &str) -> Ended {
        self.start(words, "").end()
    }

    /// Runs `sh -c SCRIPT` in every worker, after launch options.
    pub(crate) fn sh(&self, options: &str, script: &str) -> Ended {
        self.start(&format!("{options} run --out run -- sh -c"), script).end()
    }

    /// Every living process of this session but this one, as `pid name`.
    pub(crate) fn survivors(&self) -> Vec<String> {
        let pids =
            std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let marked = |pid: &String| {
            pid.parse::<u32>().is_ok()
                && std::fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|env| env.split(|byte| *byte == 0).any(|entry| entry == self.mark.as_bytes()))
        };
        let name = |pid: String| {
            format!("{pid} {}", std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim())
        };
        pids.filter(marked).map(name).collect()
    }

    /// Waits until nothing of this session lives, for `promised` times five, as the machine may be busy.
    pub(crate) fn assert_gone_within(&self, promised: Duration) {
        let mut left = Vec::new();
        let gone = until(promised * 5, || {
            left = self.survivors();
            left.is_empty()
        });
        assert!(gone, "still alive: {left:?}");
    }

    /// Nothing lives, and no socket or folder is left.
    pub(crate) fn assert_clean(&self) {
        self.assert_gone_within(Duration::from_secs(2));
        let left: Vec<_> =
            std::fs::read_dir(self.scratch()).expect("the scratch folder").map(|e| e.expect("entry").path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Running<'_> {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The supervisor's pid, once it is there.
    pub(crate) fn supervisor(&self) -> u32 {
        let guardian = self.pid();
        let mut found = None;
        let children = format!("/proc/{guardian}/task/{guardian}/children");
        until(LIMIT, || {
            let text = std::fs::read_to_string(&children).unwrap_or_default();
            found = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
            found.is_some()
        });
        found.expect("the guardian starts a supervisor")
    }

    /// Kills all that is foxlaunch's own in the job, in one moment: none can clean up after the others.
    pub(crate) fn kill_all_of_ours(&self) {
        let supervisor = self.supervisor();
        let ours: Vec<u32> = children(self.pid()).into_iter().chain([supervisor, self.pid()]).collect();
        ours.iter().for_each(|pid| kill(*pid, nix::sys::signal::Signal::SIGSTOP));
        ours.iter().for_each(|pid| kill(*pid, nix::sys::signal::Signal::SIGKILL));
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        kill(self.pid(), signal);
    }

    /// Waits until `condition` holds. The launcher must live until then.
    pub(crate) fn wait_until(&mut self, what: &str, condition: impl Fn() -> bool) {
        let child = self.child.as_mut().expect("it runs");
        let mut ended = None;
        let came = until(LIMIT, || {
            ended = child.try_wait().expect("a child of ours");
            condition() || ended.is_some()
        });
        if came && condition() {
            return;
        }
        let output = self.child.take().map(finish);
        panic!("{what} did not come; ended: {ended:?}; {output:?}");
    }

    /// Waits until the file `name` of the session's folder holds `text`.
    pub(crate) fn wait_for(&mut self, name: &str, text: &str) {
        let session = self.session;
        self.wait_until(&format!("{text:?} in {name}"), || session.read(name).contains(text));
    }

    /// Its end.
    pub(crate) fn end(mut self) -> Ended {
        let child = self.child.take().expect("it runs");
        let output = finish(child);
        let code = output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code, out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a launch ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code; minus the signal if the launcher itself was killed.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn assert_code(&self, code: i32) -> &Ended {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// The last line on standard error.
    pub(crate) fn last_line(&self) -> &str {
        self.err.lines().last().unwrap_or_default()
    }
}

/// Waits for the end, and kills what takes longer than any launch may.
fn finish(mut child: Child) -> Output {
    let mut pipes = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let out = read(pipes.0.take().map(|pipe| Box::new(pipe) as _));
    let err = read(pipes.1.take().map(|pipe| Box::new(pipe) as _));
    let ended = until(LIMIT, || child.try_wait().expect("a child of ours").is_some());
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait().expect("a child of ours");
    let output = Output { status, stdout: out.join().unwrap_or_default(), stderr: err.join().unwrap_or_default() };
    assert!(ended, "the launcher hung: {output:?}");
    output
}

/// What the kernel says that `pid` does, in one letter; `None` if it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The processes that `pid` is the parent of.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks
        .map(of_task)
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

pub(crate) fn kill(pid: u32, signal: nix::sys::signal::Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), signal);
}

/// Asks until `condition` holds or `limit` has passed.
pub(crate) fn until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Has `command` begin with the default actions: who runs these tests under nohup, or in the background of a shell, has them
/// inherit signals that are ignored, and the launcher would rightly keep that.
fn hear_all(command: &mut Command) {
    let reset = || {
        for each in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            // SAFETY: the default action is no function, so nothing is called in the child.
            unsafe { signal(each, SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec system calls alone are made, which are safe in a handler and so after a fork.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, reset) };
}
