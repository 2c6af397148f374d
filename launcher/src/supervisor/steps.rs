//! Progress of programs that link nothing of ours: each rank finds in `FOXLAUNCH_PROGRESS` a named pipe, into which
//! any language writes lines as `step 12` or `step 12/500 loss=0.3`, and `checkpoint` or `evaluate` before what takes
//! longer than a step.

use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{Display, FromWorker, Phase};
use nix::sys::stat::Mode;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// A longer line is none of ours.
const LONGEST: usize = 4096;
/// What is read at most after the program's end: what it started may still write.
const LAST_BYTES: usize = 1 << 20;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    /// A step was done.
    Step(Step),
    /// Something begins that takes longer; the next step ends it.
    Begins(Phase),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Step {
    done: u64,
    /// 0 where unknown.
    total: u64,
    values: Vec<(String, f64)>,
}

/// What comes out of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub enum FromPipe {
    /// A step was done.
    Said(FromWorker),
    /// A line was not understood; told once.
    Refused(String),
}

/// A pipe that is read on a thread of its own. Dropping it reads what is there still, and removes it.
#[derive(Debug)]
pub struct StepPipe {
    /// What the program finds in `FOXLAUNCH_PROGRESS`.
    pub path: PathBuf,
    stop: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

impl StepPipe {
    /// Makes a pipe in `folder`; `heard` is called for what `rank` writes into it.
    pub fn open(
        folder: &Path,
        attempt: Attempt,
        rank: Rank,
        heard: impl FnMut(FromPipe) + Send + 'static,
    ) -> std::io::Result<StepPipe> {
        let path = folder.join(format!("progress-{attempt}-{rank}"));
        nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // For writing too: so it opens at once, and does not end whenever a program closes it between two lines.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let pipe = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)?;
        let (stopped, stop) = std::io::pipe()?;
        let reader = std::thread::Builder::new()
            .name(format!("progress-{rank}"))
            .stack_size(256 << 10)
            .spawn(move || read(pipe, &stopped, rank, heard))?;
        Ok(StepPipe { path, stop: Some(stop), reader: Some(reader) })
    }
}

impl Drop for StepPipe {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It reads no more than what is there, and then ends.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn read(mut pipe: File, stopped: &PipeReader, rank: Rank, mut heard: impl FnMut(FromPipe)) {
    let mut lines = Lines::new(rank);
    let mut block = vec![0; 64 << 10];
    let mut left = LAST_BYTES;
    loop {
        let mut ready = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let asked = poll(&mut ready, None);
        let is_over = !ready[1].revents().is_empty();
        match asked.map_err(std::io::Error::from).and_then(|_| pipe.read(&mut block)) {
            Ok(count) if count > 0 => {
                lines.take(&block[..count]).into_iter().for_each(&mut heard);
                left = if is_over { left.saturating_sub(count) } else { left };
                if left == 0 {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !is_over => {}
            _ => {
                lines.take(b"\n").into_iter().for_each(&mut heard);
                return;
            }
        }
    }
}

/// What `bytes`, read at once from a pipe of `rank` and ended there, say.
pub fn understood(rank: Rank, bytes: &[u8]) -> Vec<FromPipe> {
    let mut lines = Lines::new(rank);
    let mut told = lines.take(bytes);
    told.extend(lines.take(b"\n"));
    told
}

/// Bytes become messages.
#[derive(Debug)]
struct Lines {
    rank: Rank,
    rest: Vec<u8>,
    /// In the middle of a line that is too long.
    skipping: bool,
    refused: bool,
    /// The last step that was told.
    step: u64,
}

impl Lines {
    fn new(rank: Rank) -> Lines {
        Lines { rank, rest: Vec::new(), skipping: false, refused: false, step: 0 }
    }

    /// Takes what was read at once. Of several lines only what they come to is told, so that no program floods us.
    fn take(&mut self, bytes: &[u8]) -> Vec<FromPipe> {
        let (mut last, mut begun, mut wrong) = (None, None, None);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            if !self.skipping {
                self.rest.extend_from_slice(text);
            }
            let too_long = self.rest.len() > LONGEST;
            if too_long {
                wrong = wrong.or(Some(format!("a line is longer than {LONGEST} bytes")));
                self.rest.clear();
            }
            if text.len() == piece.len() {
                // The line goes on.
                self.skipping |= too_long;
                continue;
            }
            if !self.skipping && !too_long {
                match parse(&String::from_utf8_lossy(&self.rest)) {
                    Ok(Some(Line::Step(step))) => (last, begun) = (Some(step), None),
                    Ok(Some(Line::Begins(phase))) => begun = Some(phase),
                    Ok(None) => {}
                    Err(why) => wrong = wrong.or(Some(why)),
                }
            }
            self.rest.clear();
            self.skipping = false;
        }
        let wrong = wrong.filter(|_| !std::mem::replace(&mut self.refused, true));
        let refused = wrong.map(|why| FromPipe::Refused(format!("FOXLAUNCH_PROGRESS: {why}")));
        let said = (last.is_some() || begun.is_some()).then(|| FromPipe::Said(self.message(last, begun)));
        refused.into_iter().chain(said).collect()
    }

    fn message(&mut self, step: Option<Step>, begun: Option<Phase>) -> FromWorker {
        self.step = step.as_ref().map_or(self.step, |step| step.done);
        // One line of progress is enough for a world that steps together.
        let shown = step.filter(|_| self.rank == Rank(0));
        let display = shown.map(|Step { done, total, values }| Display { part: String::new(), done, total, values });
        FromWorker::Progress { step: self.step, collectives: 0, phase: begun.unwrap_or(Phase::Step), display }
    }
}

/// Reads a line; a blank one says nothing.
fn parse(line: &str) -> Result<Option<Line>, String> {
    let form = "`step 12`, `step 12/500 loss=0.3`, `checkpoint` or `evaluate`";
    let wrong = || format!("{:?} is not of the form {form}", cut(line));
    let mut words = line.split_whitespace();
    let begins = match words.next() {
        None => return Ok(None),
        Some("step") => None,
        Some("checkpoint") => Some(Phase::Checkpoint),
        Some("evaluate") => Some(Phase::Evaluate),
        Some(_) => return Err(wrong()),
    };
    if let Some(phase) = begins {
        return if words.next().is_none() { Ok(Some(Line::Begins(phase))) } else { Err(wrong()) };
    }
    let counts = words.next().ok_or_else(wrong)?;
    let (done, total) = counts.split_once('/').unwrap_or((counts, "0"));
    let (done, total) = done.parse().ok().zip(total.parse().ok()).ok_or_else(wrong)?;
    let value = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let values = words.map(|word| value(word).ok_or_else(wrong)).collect::<Result<_, _>>()?;
    Ok(Some(Line::Step(Step { done, total, values })))
}

/// The beginning of `line`, short enough for a message.
fn cut(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::sync::mpsc::channel;

    fn step(done: u64, total: u64, values: &[(&str, f64)]) -> Step {
        Step { done, total, values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect() }
    }

    #[test]
    fn lines_are_understood_or_refused() {
        for (line, meant) in [
            ("step 3", step(3, 0, &[])),
            ("  step 12/500  loss=0.3 lr=1e-4 \r", step(12, 500, &[("loss", 0.3), ("lr", 1e-4)])),
        ] {
            assert_eq!(parse(line), Ok(Some(Line::Step(meant))), "{line}");
        }
        assert_eq!(parse(" \t"), Ok(None));
        assert_eq!(parse(" checkpoint\r"), Ok(Some(Line::Begins(Phase::Checkpoint))));
        assert_eq!(parse("evaluate"), Ok(Some(Line::Begins(Phase::Evaluate))));
        for line in [
            "checkpoint 3",
            "evaluated",
            "step",
            "step x",
            "step -1",
            "step 1/",
            "steps 1",
            "step 1 loss",
            "step 1 loss=low",
            "12",
        ] {
            let why = parse(line).unwrap_err();
            assert!(why.contains("`step 12`"), "{why}");
        }
    }

    #[test]
    fn only_the_last_of_many_is_told_and_only_the_first_that_is_wrong() {
        let mut lines = Lines::new(Rank(1));
        let told = lines.take(b"step 1\nnonsense\nstep 2\nmore nonsense\nste");
        assert_eq!(told.len(), 2);
        assert!(matches!(&told[0], FromPipe::Refused(why) if why.contains("\"nonsense\"")), "{told:?}");
        assert!(matches!(&told[1], FromPipe::Said(FromWorker::Progress { step: 2, display: None, .. })), "{told:?}");
        assert_eq!(lines.take(b"p 3\nnonsense\n").len(), 1);
        assert!(Lines::new(Rank(0)).take(&vec![b'x'; LONGEST * 3]).len() == 1);
        assert!(lines.rest.len() <= LONGEST);
    }

    #[test]
    fn a_phase_lasts_until_the_next_step() {
        let mut lines = Lines::new(Rank(0));
        let mut told = |text: &str| match &lines.take(text.as_bytes())[..] {
            [FromPipe::Said(FromWorker::Progress { step, phase, display, .. })] => (*step, *phase, display.is_some()),
            other => panic!("{other:?}"),
        };
        assert_eq!(told("checkpoint\n"), (0, Phase::Checkpoint, false));
        assert_eq!(told("step 5\nevaluate\n"), (5, Phase::Evaluate, true));
        assert_eq!(told("checkpoint\n"), (5, Phase::Checkpoint, false));
        assert_eq!(told("checkpoint\nstep 6\n"), (6, Phase::Step, true));
    }

    #[test]
    fn what_was_written_before_the_end_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, told) = channel();
        let pipe = StepPipe::open(folder.path(), Attempt(1), Rank(0), move |read| drop(tell.send(read))).unwrap();
        let path = pipe.path.clone();
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"step 7").unwrap();
        drop(pipe);
        assert!(matches!(told.recv(), Ok(FromPipe::Said(FromWorker::Progress { step: 7, .. }))));
        assert!(told.recv().is_err() && !path.exists());
    }

    proptest! {
        #[test]
        fn the_same_is_told_however_the_stream_is_cut(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b's'), any::<u8>()], 0..300),
            cut in 1usize..40,
        ) {
            let mut lines = Lines::new(Rank(0));
            bytes.chunks(cut).for_each(|piece| drop(lines.take(piece)));
            let told = lines.take(b"\nstep 9/10 x=1\n");
            let expected = FromWorker::Progress {
                step: 9,
                collectives: 0,
                phase: Phase::Step,
                display: Some(Display { part: String::new(), done: 9, total: 10, values: vec![("x".into(), 1.0)] }),
            };
            prop_assert_eq!(told.last(), Some(&FromPipe::Said(expected)));
        }
    }
}
