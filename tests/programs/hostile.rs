//! What a worker that means harm, or another program in its place, may send over its channel.

use foxlaunch_shared::env;
use foxlaunch_shared::ids::{Attempt, Rank, WorldSize};
use foxlaunch_shared::protocol::{FromWorker, Hello, Phase, Transport, wire};
use ipc_channel::ipc::{IpcBytesReceiver, IpcBytesSender, IpcSender, bytes_channel};
use std::os::fd::RawFd;
use std::process::ExitCode;

/// Sends it, then a hello so that the others go on, and ends well; after `half-open` and `no-words` it never speaks.
pub(crate) fn send(kind: &str) -> anyhow::Result<ExitCode> {
    let name = std::env::var(env::FOXLAUNCH_CHANNEL)?;
    if kind == "no-words" {
        // It connects, and says nothing at all.
        let _line = IpcSender::<(IpcBytesSender, IpcBytesReceiver)>::connect(name)?;
        wait_for_the_end();
    }
    if kind == "foreign" {
        // Another program's words in the place of the first packet.
        let before = sockets();
        let _line = IpcSender::<(IpcBytesSender, IpcBytesReceiver)>::connect(name)?;
        raw(new_socket(&before)?, b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n")?;
        wait_for_the_end();
    }
    let (to_worker, heard) = bytes_channel()?;
    let before = sockets();
    let (to_launcher, from_worker) = bytes_channel()?;
    let both: Vec<RawFd> = sockets().into_iter().filter(|fd| !before.contains(fd)).collect();
    IpcSender::<(IpcBytesSender, IpcBytesReceiver)>::connect(name)?.send((to_worker, from_worker))?;
    let line = both.into_iter().find(|fd| sockets().contains(fd));

    let (attempt, rank) = (Attempt(std::env::var(env::FOXLAUNCH_ATTEMPT)?.parse()?), Rank(1));
    let progress = |step| FromWorker::Progress { step, collectives: 0, phase: Phase::Step, display: None };
    let good = wire::encode(attempt, rank, &progress(1))?;
    let damaged = |at: usize, to: u8| {
        let mut frame = good.clone();
        frame[at] = to;
        frame
    };
    match kind {
        "half-open" => wait_for_the_end(),
        "garbage" => to_launcher.send(b"GET / HTTP/1.1\r\n\r\n")?,
        "empty" => to_launcher.send(&[])?,
        "long" => to_launcher.send(&vec![7; wire::MAX_FRAME + 1])?,
        "very-long" => to_launcher.send(&vec![7; 64 << 20])?,
        "stale" => to_launcher.send(&wire::encode(Attempt(99), rank, &progress(1))?)?,
        "forged" => to_launcher.send(&wire::encode(attempt, Rank(0), &FromWorker::Bye)?)?,
        "cut" => to_launcher.send(&good[..good.len() - 1])?,
        "more" => to_launcher.send(&[&good[..], b"more"].concat())?,
        // The head's first number is four bytes behind its mark.
        "version" => to_launcher.send(&damaged(1, 2))?,
        "unknown" => to_launcher.send(&damaged(7, 200))?,
        "much-garbage" => (0..100_000).try_for_each(|_| to_launcher.send(b"nonsense")).unwrap_or_default(),
        "flood" => {
            for step in 0..300_000 {
                to_launcher.send(&wire::encode(attempt, rank, &progress(step))?)?;
            }
        }
        // Packets that are none of the channel's own: too short for its header; of a size that no memory holds.
        "short-packet" => raw(line.unwrap_or(-1), &[8, 0, 0, 0, 0, 0, 0, 0, 1])?,
        "huge-packet" => {
            let head = [24u64, u64::MAX >> 1, 0].map(u64::to_ne_bytes).concat();
            raw(line.unwrap_or(-1), &head)?;
        }
        other => anyhow::bail!("there is no hostile {other}"),
    }
    let hello = FromWorker::Hello(Hello {
        pid: std::process::id(),
        world_size: WorldSize(std::env::var(env::WORLD_SIZE)?.parse()?),
        transport: Transport::Shm,
        arena_bytes: 0,
        comm_id: None,
        stops_when_told: false,
    });
    // Who is not heard any more is told so by the channel.
    for message in [hello, FromWorker::Bye] {
        if to_launcher.send(&wire::encode(attempt, rank, &message)?).is_err() {
            break;
        }
    }
    drop(heard);
    Ok(ExitCode::SUCCESS)
}

/// Lives until it is ended from outside.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// The sockets that this process has.
fn sockets() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_socket =
        |path: &std::path::Path| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    entries
        .filter(|entry| is_socket(&entry.path()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn new_socket(before: &[RawFd]) -> anyhow::Result<RawFd> {
    sockets().into_iter().find(|fd| !before.contains(fd)).ok_or_else(|| anyhow::anyhow!("no socket was opened"))
}

/// Writes one packet past the channel's own writer.
fn raw(socket: RawFd, bytes: &[u8]) -> anyhow::Result<()> {
    anyhow::ensure!(socket >= 0, "no socket to write to");
    nix::sys::socket::send(socket, bytes, nix::sys::socket::MsgFlags::empty())?;
    Ok(())
}
