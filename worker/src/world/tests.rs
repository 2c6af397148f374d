//! Joining with and without a launcher. The launcher here is a thread that speaks the real protocol.

use super::contract::DeviceKind;
use super::*;
use crate::collectives::{Buffer, ReduceOp, shm};
use foxlaunch_shared::protocol::{FromLauncher, wire};
use ipc_channel::ipc::{IpcBytesReceiver, IpcBytesSender, IpcOneShotServer};
use std::thread::{self, JoinHandle};

const FIRST: Attempt = Attempt::FIRST;

/// The launcher's end of one worker's channel.
struct Desk {
    rank: Rank,
    to_worker: IpcBytesSender,
    from_worker: IpcBytesReceiver,
}

impl Desk {
    fn hear(&self) -> FromWorker {
        wire::decode(&self.from_worker.recv().expect("the worker says something"), FIRST, self.rank).unwrap()
    }

    fn say(&self, message: FromLauncher) {
        self.to_worker.send(&wire::encode(FIRST, self.rank, &message).unwrap()).unwrap();
    }

    /// Everything up to the end of the channel.
    fn rest(&self) -> Vec<FromWorker> {
        let frames = std::iter::from_fn(|| self.from_worker.recv().ok());
        frames.map(|frame| wire::decode(&frame, FIRST, self.rank).unwrap()).collect()
    }
}

/// Starts a thread that joins as `rank` of `world` and then runs `body`, and connects to it.
fn start<R: Send + 'static>(
    rank: u32,
    world: u32,
    body: impl FnOnce(Result<World, WorldError>) -> R + Send + 'static,
) -> (Desk, JoinHandle<R>) {
    let (server, name) = IpcOneShotServer::<(IpcBytesSender, IpcBytesReceiver)>::new().unwrap();
    let contract = Contract {
        channel: Some(name),
        rank: Rank(rank),
        world: WorldSize(world),
        attempt: FIRST,
        device: DeviceKind::Cpu,
        run_dir: None,
    };
    let worker = thread::spawn(move || body(World::builder().stops_when_told(true).join_as(contract)));
    let (_, (to_worker, from_worker)) = server.accept().unwrap();
    (Desk { rank: Rank(rank), to_worker, from_worker }, worker)
}

fn hello(desk: &Desk) -> Hello {
    match desk.hear() {
        FromWorker::Hello(hello) => hello,
        other => panic!("{other:?} instead of hello"),
    }
}

#[test]
fn without_a_launcher_it_is_alone() {
    let mut world = World::join().unwrap();
    assert_eq!((world.rank(), world.world_size()), (Rank(0), WorldSize(1)));
    assert!(world.is_first() && !world.is_launched());
    world.progress(1, Phase::Step, None);
    world.collective().barrier().unwrap();
    assert_eq!(world.stop_requested(), None);
    world.leave();
}

#[test]
fn two_ranks_meet_and_say_what_they_did() {
    let body = |world: Result<World, WorldError>| {
        let mut world = world.unwrap();
        let mut data = [1. + world.rank().0 as f32];
        world.collective().all_reduce(Buffer::F32(&mut data), ReduceOp::Sum).unwrap();
        for step in 0..1000 {
            world.progress(step, Phase::Step, None);
        }
        world.checkpointed(999, Path::new("checkpoints/999"));
        world.leave();
        data[0]
    };
    let workers: Vec<_> = (0..2).map(|rank| start(rank, 2, body)).collect();
    let wish = workers.iter().map(|(desk, _)| hello(desk)).map(|hello| {
        assert_eq!((hello.transport, hello.world_size), (Transport::Shm, WorldSize(2)));
        assert!(hello.stops_when_told && hello.comm_id.is_none());
        hello.arena_bytes
    });
    let (_memory, place) = shm::memory(wish.max().unwrap()).unwrap();
    for (desk, _) in &workers {
        desk.say(FromLauncher::Welcome { comm_id: None, arena: Some(place.clone()) });
    }
    for (desk, worker) in workers {
        assert_eq!(desk.hear(), FromWorker::Ready);
        let rest = desk.rest();
        assert!(rest.len() < 100, "{} messages for 1000 steps in no time", rest.len());
        let steps: Vec<u64> = rest
            .iter()
            .filter_map(|m| if let FromWorker::Progress { step, .. } = m { Some(*step) } else { None })
            .collect();
        assert!(steps.is_sorted() && steps.last() == Some(&999), "{steps:?}");
        let path = "checkpoints/999".to_owned();
        assert_eq!(rest[rest.len() - 2..], [FromWorker::Checkpointed { step: 999, path }, FromWorker::Bye]);
        assert_eq!(worker.join().unwrap(), 3.);
    }
}

#[test]
fn one_rank_under_a_launcher_needs_no_shared_memory() {
    let (desk, worker) = start(0, 1, |world| {
        let mut world = world.unwrap();
        world.collective().barrier().unwrap();
        world.fault(&Fault { message: "disk full".into(), code: 73, blames: None });
    });
    let hello = hello(&desk);
    assert_eq!((hello.transport, hello.arena_bytes), (Transport::Solo, 0));
    desk.say(FromLauncher::Welcome { comm_id: None, arena: None });
    let rest = desk.rest();
    assert!(matches!(&rest[..], [FromWorker::Ready, FromWorker::Fault(fault)] if fault.code == 73), "{rest:?}");
    worker.join().unwrap();
}

#[test]
fn a_lost_peer_and_a_stop_reach_the_training_loop() {
    let (_memory, place) = shm::memory(1 << 20).unwrap();
    let alone = place.clone();
    let (desk, worker) = start(0, 2, |world| {
        let mut world = world.unwrap();
        let error = world.collective().barrier().unwrap_err();
        (error, world.stop_requested(), world.given_up())
    });
    hello(&desk);
    desk.say(FromLauncher::Welcome { comm_id: None, arena: Some(place) });
    // rank 1 comes, and never calls anything
    let silent = Shm::form(&alone, Rank(1), WorldSize(2), Duration::from_secs(20), Arc::default()).unwrap();
    assert_eq!(desk.hear(), FromWorker::Ready);
    let before = Instant::now();
    desk.say(FromLauncher::Stop { within_ms: 5000 });
    desk.say(FromLauncher::PeerLost { rank: Rank(1), how: "killed by SIGKILL".into() });
    let (error, stop, given_up) = worker.join().unwrap();
    assert_eq!(error, CollectiveError::PeerLost(Rank(1), "barrier".into()));
    assert!(stop.unwrap() >= before + Duration::from_millis(5000));
    assert_eq!(given_up.as_deref(), Some("rank 1 ended: killed by SIGKILL"));
    drop(silent);
}

#[test]
fn joining_ends_when_the_launcher_or_a_peer_does() {
    let (desk, worker) = start(0, 2, |world| world.err());
    hello(&desk);
    drop(desk);
    assert_eq!(worker.join().unwrap(), Some(WorldError::LauncherGone));

    let (desk, worker) = start(0, 2, |world| world.err());
    hello(&desk);
    desk.say(FromLauncher::PeerLost { rank: Rank(1), how: "exited with 3".into() });
    let lost = WorldError::PeerLost { rank: Rank(1), how: "exited with 3".into() };
    assert_eq!(worker.join().unwrap(), Some(lost));

    let (desk, worker) = start(0, 2, |world| world.err());
    hello(&desk);
    desk.to_worker.send(b"GET / HTTP/1.1").unwrap();
    assert!(matches!(worker.join().unwrap(), Some(WorldError::Unwelcome(_))));
}

#[test]
fn a_channel_that_is_not_there_is_named() {
    let contract = Contract::read(|name| {
        let value = match name {
            "FOXLAUNCH_CHANNEL" => "/nowhere/socket",
            "RANK" => "0",
            "WORLD_SIZE" | "FOXLAUNCH_ATTEMPT" => "1",
            _ => return None,
        };
        Some(value.to_owned())
    });
    let error = World::builder().join_as(contract.unwrap()).err().unwrap().to_string();
    assert!(error.contains("/nowhere/socket"), "{error}");
}
