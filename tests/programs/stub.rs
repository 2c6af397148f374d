//! A worker with known sins, one for each verb; what the launcher does about them is tested.
//!
//! | verb | sin |
//! |---|---|
//! | `leave-early` | says hello, then ends with code 0 and no goodbye, if it is rank 1; the others wait in a barrier |
//! | `die-in-barrier` | rank 1 kills itself while the others wait in a barrier |
//! | `fault CODE` | rank 1 tells what went wrong and exits with CODE; the others wait in a barrier |
//! | `garbage` | sends what is not a message, then behaves |
//! | `forge` | sends a message in another rank's name, then behaves |
//! | `mismatch` | rank 1 calls another collective than the others |
//! | `stuck` | rank 1 loops for ever at step 7, alive and well; the others wait in a barrier |
//! | `traceable` | makes a step and waits for ever, and lets any process of this user trace it |
//! | `hostile KIND` | rank 1 sends what `hostile.rs` lists, the others end at once |
//! | `slow-phases` | takes its time to start, in a checkpoint and in an evaluation, and says so |

mod hostile;

use foxlaunch_shared::env;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{Fault, FromWorker, Phase, wire};
use foxlaunch_worker::collectives::{Buffer, CollectiveError, ReduceOp};
use foxlaunch_worker::world::World;
use ipc_channel::ipc::{IpcBytesReceiver, IpcBytesSender, IpcSender, bytes_channel};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = std::env::args().collect();
    let sin = args.get(1).map_or("", String::as_str);
    if let "garbage" | "forge" = sin {
        return write_frames(sin == "forge");
    }
    if sin == "hostile" {
        let harms = std::env::var(env::RANK)? == "1";
        return if harms { hostile::send(&args[2]) } else { Ok(ExitCode::SUCCESS) };
    }
    let mut world = World::join()?;
    let sinner = world.rank() == Rank(1);
    match sin {
        "leave-early" if sinner => std::process::exit(0),
        "die-in-barrier" if sinner => nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL)?,
        "fault" if sinner => {
            let code = args[2].parse()?;
            world.fault(&Fault { message: "the disk is on fire; water it".into(), code, blames: None });
            std::process::exit(code);
        }
        "stuck" => {
            for step in 1..=7 {
                world.progress(step, Phase::Step, None);
                world.collective().barrier()?;
            }
            if sinner {
                loop {
                    std::thread::park();
                }
            }
        }
        "traceable" => {
            // SAFETY: the call takes two numbers. Where the kernel knows no such limit it fails, and none is needed.
            unsafe { nix::libc::prctl(nix::libc::PR_SET_PTRACER, nix::libc::PR_SET_PTRACER_ANY) };
            world.progress(1, Phase::Step, None);
            loop {
                std::thread::park();
            }
        }
        "slow-phases" => {
            for (step, phase) in
                [(0, Phase::Init), (1, Phase::Step), (1, Phase::Checkpoint), (2, Phase::Step), (2, Phase::Evaluate)]
            {
                world.progress(step, phase, None);
                if phase != Phase::Step {
                    // twice the limit that a step has in the test
                    std::thread::sleep(Duration::from_millis(2000));
                }
            }
        }
        "mismatch" if sinner => {
            let mut values = [1f32; 3];
            return Ok(ended(&mut world, |world| {
                world.collective().all_reduce(Buffer::F32(&mut values), ReduceOp::Sum)
            }));
        }
        _ => {}
    }
    let code = ended(&mut world, |world| world.collective().barrier());
    if code == ExitCode::SUCCESS {
        world.leave();
    }
    Ok(code)
}

/// Makes the call, and ends as our own workers do if it fails.
fn ended(world: &mut World, call: impl FnOnce(&mut World) -> Result<(), CollectiveError>) -> ExitCode {
    let Err(error) = call(world) else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    let blames = match error {
        CollectiveError::PeerLost(rank, _) => Some(rank),
        _ => None,
    };
    let code = if blames.is_some() { foxlaunch_shared::exit::COLLATERAL } else { 1 };
    world.fault(&Fault { message: error.to_string(), code, blames });
    ExitCode::from(code as u8)
}

/// Connects as a worker does and writes a frame that must be refused.
fn write_frames(forge: bool) -> anyhow::Result<ExitCode> {
    let (to_worker, _heard): (IpcBytesSender, IpcBytesReceiver) = bytes_channel()?;
    let (to_launcher, from_worker) = bytes_channel()?;
    let bootstrap = IpcSender::<(IpcBytesSender, IpcBytesReceiver)>::connect(std::env::var(env::FOXLAUNCH_CHANNEL)?)?;
    bootstrap.send((to_worker, from_worker))?;
    let rank = Rank(std::env::var(env::RANK)?.parse()?);
    let frame = match forge {
        true => wire::encode(Attempt(1), Rank(rank.0 + 1), &FromWorker::Bye)?,
        false => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    };
    to_launcher.send(&frame)?;
    Ok(ExitCode::SUCCESS)
}
