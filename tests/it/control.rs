//! Control tasks from outside: PPO and DQN on built-in and own environments, several seeds, what is refused.

use crate::session::Session;
use crate::training::{assert_same, numbers_of};
use foxlaunch_shared::evaluation::ControlResult;
use foxlaunch_shared::exit;

const OWN_WORKER: &str = env!("CARGO_BIN_EXE_fox-test-own-worker");
/// A run of seconds.
const SHORT: &str = "--smoke --set train.steps=1600 --set environment.evaluation_episodes=4";

fn result(session: &Session, run: &str) -> ControlResult {
    serde_json::from_str(&session.read(&format!("{run}/evaluation/control.json"))).expect("a control task's result")
}

#[test]
fn ppo_trains_on_a_control_task_and_says_what_came_of_it() {
    let session = Session::new();
    let ended = session.run(&format!("--cpu --nproc 2 train ppo --env cartpole {SHORT} --seed 5 --out run"));
    ended.assert_code(0);
    assert!(ended.err.contains("train ppo: 2 workers on the processor"), "{}", ended.err);
    assert!(ended.err.contains("; cartpole; network of"), "{}", ended.err);
    for word in ["cartpole: ppo, seed 5, 1600 steps; return of 4 greedy episodes", "best weights", "last weights"] {
        assert!(ended.out.contains(word), "{word} in\n{}", ended.out);
    }
    assert!(!ended.out.contains("left out"), "{}", ended.out);
    let result = result(&session, "run");
    assert_eq!((result.best.returns.len(), result.last.map(|last| last.returns.len())), (4, Some(4)));
    let report: serde_json::Value = serde_json::from_str(&session.read("run/report.json")).unwrap();
    assert_eq!(report["control"][0]["best"]["mean"].as_f64(), Some(result.best.mean));
    let page = session.read("run/report.html");
    assert!(page.contains("cartpole: ppo") && page.contains("last weights"));
    for name in ["policy_loss", "entropy", "kl", "clip_fraction", "episode_length", "explained_variance", "validation"]
    {
        assert!(session.read("run/metrics.jsonl").contains(&format!("\"{name}\":")), "{name}");
    }
    session.assert_clean();
}

#[test]
fn one_to_three_workers_give_the_same_bits() {
    let session = Session::new();
    let words = |workers: u32, env: &str| {
        format!(
            "--cpu --nproc {workers} train ppo --env {env} {SHORT} --set parallel.virtual_shards=3 --set \
             ppo.normalize_observation=true --out {env}-{workers}"
        )
    };
    for env in ["acrobot", "pendulum"] {
        let run = |workers| {
            session.run(&words(workers, env)).assert_code(0);
            numbers_of(&session.run_dir(&format!("{env}-{workers}")), "control.json")
        };
        let alone = run(1);
        for workers in 2..=3 {
            assert_same(&alone, &run(workers));
        }
    }
}

#[test]
fn both_algorithms_trade_and_both_control() {
    let session = Session::new();
    session.run(&format!("--cpu --nproc 1 train dqn --env mountaincar {SHORT} --out dqn")).assert_code(0);
    assert_eq!(result(&session, "dqn").algorithm, "dqn");
    assert_eq!(result(&session, "dqn").best.mean_length, 200.0);
    let ended = session.run(&format!("--cpu --nproc 2 train ppo {SHORT} --out market"));
    ended.assert_code(0);
    assert!(ended.out.contains("buy & hold") && ended.err.contains("train ppo"), "{}", ended.out);
}

#[test]
fn seeds_are_trained_apart_and_pooled() {
    let session = Session::new();
    let ended = session
        .run(&format!("--cpu --nproc 2 train ppo --env cartpole {SHORT} --parallel seeds --seeds 0..2 --out run"));
    ended.assert_code(0);
    assert!(ended.err.contains("each by itself") && ended.err.contains("3 seeds"), "{}", ended.err);
    assert!(ended.out.contains("3 seeds, mean return of the last weights: interquartile mean"), "{}", ended.out);
    let report: serde_json::Value = serde_json::from_str(&session.read("run/report.json")).unwrap();
    assert_eq!(report["control"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["pooled"]["seeds"].as_array().map(Vec::len), Some(3));
    session.assert_clean();
    // a seed is trained alike with others, by one worker, and alone
    session.run(&format!("--cpu --nproc 1 train ppo --env cartpole {SHORT} --seeds 2,1 --out one")).assert_code(0);
    session.run(&format!("--cpu --nproc 1 train ppo --env cartpole {SHORT} --seed 2 --out alone")).assert_code(0);
    let of = |run: &str| numbers_of(&session.run_dir(run), "control.json");
    assert_same(&of("run/seed-2"), &of("one/seed-2"));
    assert_same(&of("run/seed-1"), &of("one/seed-1"));
    let (apart, alone) = (of("run/seed-2"), of("alone"));
    assert_eq!(apart["evaluation/control.json"], alone["evaluation/control.json"]);
    assert_eq!(apart["metrics.jsonl"], alone["metrics.jsonl"]);
}

#[test]
fn an_own_environment_and_an_own_reward_are_trained_by_an_own_worker() {
    let session = Session::new();
    let run = |words: &str| {
        let mut command = session.command(words);
        let output = command.env("FOXLAUNCH_WORKER", OWN_WORKER).output().expect("the launcher runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), format!("{out}{err}"))
    };
    let settings =
        "--set train.steps=6000 --set environment.streams=4 --set dqn.train_every=4 --set dqn.preset=vanilla";
    let (code, said) = run(&format!("--cpu --nproc 2 train dqn --env corridor --smoke {settings} --out dqn"));
    assert_eq!(code, Some(0), "{said}");
    // the shortest way from each cell: a reward of 1 less a tenth for each step before
    let best = result(&session, "dqn").best;
    assert!(best.least > 0.3 && best.mean_length < 8.0, "{best:?}");
    let (code, said) = run(&format!("--cpu --nproc 1 train ppo --env corridor {SHORT} --out ppo"));
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&format!("--cpu --nproc 1 train dqn {SHORT} --set environment.reward=timid --out timid"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("buy & hold"), "{said}");
    let (code, said) = run("--cpu train dqn --set environment.reward=timed --out no");
    assert_eq!(code, Some(exit::CONFIG), "{said}");
    assert!(said.contains("did you mean \"timid\"?"), "{said}");
    let (code, said) = run("--cpu train dqn --env coridor --out no");
    assert_eq!(code, Some(exit::CONFIG), "{said}");
    assert!(said.contains("did you mean \"corridor\"?"), "{said}");
}

#[test]
fn what_cannot_be_trained_is_refused_in_words() {
    let session = Session::new();
    for (words, code, said) in [
        ("train ppo --env cartpol", exit::CONFIG, "did you mean \"cartpole\"?"),
        ("train dqn --env pendulum", exit::CONFIG, "train it with ppo"),
        ("train ppo --env cartpole --set ppo.batch_size=4096", exit::CONFIG, "ppo.batch_size"),
        ("train ppo --set parallel.sync_every_n_steps=2", exit::CONFIG, "parallel.sync_every_n_steps"),
        ("train ppo --env cartpole --seeds 9..0", exit::USAGE, "9..0"),
        ("train ppo --seed 1 --seeds 0..1", exit::USAGE, "cannot be used with"),
    ] {
        let ended = session.run(&format!("--cpu --nproc 1 {words} --out run"));
        ended.assert_code(code);
        assert!(ended.err.contains(said), "{words}: {}", ended.err);
        assert!(!session.path("run").exists(), "{words} left a folder");
    }
}

#[test]
fn every_file_of_published_settings_is_valid() {
    use foxlaunch_shared::config::{Layer, Layers};
    let files: Vec<_> = crate::source::files("scripts/reproduce");
    assert!(files.len() >= 8, "{files:?}");
    for path in files {
        let text = crate::source::text(&path);
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut layers = Layers::new();
        layers.push(Layer::from_toml(&name, &text).unwrap()).unwrap();
        let algorithm = name.split('-').next().unwrap();
        layers.push(Layer::from_pairs("test", [format!("train.algorithm={algorithm}").as_str()]).unwrap()).unwrap();
        let (config, _) = layers.resolve().unwrap();
        assert_eq!((config.environment.reward_scale, config.train.checkpoint_every), (1.0, 0), "{name}");
        assert!(
            text.contains(&format!("foxlaunch train {algorithm} --config scripts/reproduce/{name}.toml")),
            "{name}"
        );
    }
}
