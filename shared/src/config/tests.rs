use super::*;

fn resolve(layers: impl IntoIterator<Item = Layer>) -> Result<Config, ConfigError> {
    let mut all = Layers::new();
    for layer in layers {
        all.push(layer)?;
    }
    Ok(all.resolve()?.0)
}

fn set(pair: &str) -> Layer {
    Layer::from_pairs("--set", [pair]).unwrap()
}

#[test]
fn the_defaults_are_valid_and_survive_a_round_trip() {
    let config = Config::default();
    assert_eq!(Config::from_toml(&config.to_toml(), "config.toml").unwrap(), config);
}

#[test]
fn a_stronger_layer_wins_and_says_so() {
    let mut layers = Layers::new();
    layers
        .push(Layer::from_env([("FOXLAUNCH_SET_DQN__GAMMA".into(), "0.5".into()), ("HOME".into(), "/".into())]))
        .unwrap();
    layers.push(Layer::from_toml("my.toml", "[dqn]\ngamma = 0.6\nbatch_size = 64").unwrap()).unwrap();
    layers.push(set("dqn.batch_size=32")).unwrap();
    let (config, origins) = layers.resolve().unwrap();
    assert_eq!((config.dqn.gamma, config.dqn.batch_size), (0.6, 32));
    assert_eq!(origins["dqn.gamma"], "my.toml");
    assert_eq!(origins["dqn.batch_size"], "--set");
    assert_eq!(origins["dqn.n_step"], "default");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest() {
    let error = resolve([set("dqn.learning_rat=1e-3")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--set: there is no setting \"dqn.learning_rat\"; did you mean \"dqn.learning_rate\"?"
    );
    let error = resolve([set("gamma=0.9")]).unwrap_err();
    assert!(error.to_string().ends_with("did you mean \"dqn.gamma\"?"), "{error}");
}

#[test]
fn types_and_limits_are_checked_with_their_origin() {
    let message = |pair| resolve([set(pair)]).unwrap_err().to_string();
    assert_eq!(message("dqn.batch_size=many"), "--set: dqn.batch_size takes a whole number, not \"many\"");
    assert_eq!(message("dqn.gamma=1.5"), "dqn.gamma = 1.5: must be from 0 to 1 (from --set)");
    assert_eq!(message("train.steps=-1"), "train.steps = -1: must not be negative (from --set)");
    let error = Layer::from_pairs("--set", ["dqn.gamma"]).unwrap_err().to_string();
    assert_eq!(error, "--set: \"dqn.gamma\" is not KEY=VALUE");
    assert!(message("network.hidden=[64, 0]").contains("must be 1 to 64 widths"));
    assert_eq!(resolve([set("dqn.gamma=1")]).unwrap().dqn.gamma, 1.0);
    assert_eq!(resolve([set("data.path=7")]).unwrap().data.path, "7");
    assert_eq!(resolve([set("environment.positions=[0, 1]")]).unwrap().environment.positions, [0.0, 1.0]);
}

#[test]
fn a_hyperopt_file_fills_its_own_gaps() {
    let layer =
        hyperopt_layer("h.json", r#"{"learning_rate": 1e-3, "batch_size": 128, "hidden_dim_base": 256}"#).unwrap();
    let config = resolve([layer]).unwrap();
    assert_eq!((config.dqn.gamma, config.dqn.buffer_size, config.dqn.batch_size), (0.95, 50_000, 128));
    assert_eq!(config.network.widths(), [256, 128, 64]);
    assert_eq!((config.ppo.gamma, config.ppo.batch_size, config.ppo.learning_rate_end), (0.95, 128, 1e-3));
    assert_eq!(config.network.actor_critic_widths(&config.ppo).1, [512, 256, 128]);
    let mut layers = Layers::new();
    layers.push(Layer::from_toml("weaker", "[network]\nhidden_dim_base = 512\nhidden = [7]").unwrap()).unwrap();
    layers.push(hyperopt_layer("h.json", r#"{"learning_rate": 1e-3}"#).unwrap()).unwrap();
    assert_eq!(layers.resolve().unwrap().0.network.widths(), [128, 64]);
    for bad in ["[]", "{", r#"{"gama": 0.9}"#, r#"{"batch_size": 12.5}"#, r#"{"gamma": "high"}"#] {
        assert!(hyperopt_layer("h.json", bad).unwrap_err().to_string().starts_with("h.json: "), "{bad}");
    }
}

#[test]
fn a_preset_sets_what_no_layer_sets_as_late_as_it() {
    // the defaults are a preset's, so that naming it changes nothing
    let named = resolve([set("dqn.preset=rainbow")]).unwrap();
    assert_eq!(named, Config::default());
    let vanilla = resolve([set("dqn.preset=vanilla")]).unwrap().dqn;
    assert!(!vanilla.double && !vanilla.dueling && !vanilla.noisy && !vanilla.prioritized);
    assert_eq!((vanilla.head, vanilla.n_step), (HeadConfig::Value, 1));
    let foxhunt = resolve([set("dqn.preset=foxhunt")]).unwrap().dqn;
    assert_eq!((foxhunt.head, foxhunt.conservative, foxhunt.noisy), (HeadConfig::Quantile, 1.0, true));
    // a weaker layer gives way, one as strong does not
    let mut layers = Layers::new();
    layers.push(Layer::from_toml("my.toml", "[dqn]\nn_step = 5\ndueling = false").unwrap()).unwrap();
    layers.push(Layer::from_pairs("--set", ["dqn.preset=iqn", "dqn.double=true"]).unwrap()).unwrap();
    let (config, origins) = layers.resolve().unwrap();
    assert_eq!((config.dqn.n_step, config.dqn.double, config.dqn.head), (1, true, HeadConfig::Quantile));
    assert_eq!(origins["dqn.n_step"], "dqn.preset = \"iqn\"");
    // settings that were resolved once stay as they are
    assert_eq!(Config::from_toml(&config.to_toml(), "config.toml").unwrap(), config);
    let error = resolve([set("dqn.preset=rainbw")]).unwrap_err().to_string();
    assert!(error.contains("vanilla, rainbow, iqn, foxhunt"), "{error}");
    assert!(resolve([set("dqn.head=c52")]).unwrap_err().to_string().contains("categorical"));
    assert!(resolve([set("dqn.v_max=-20")]).unwrap_err().to_string().contains("above dqn.v_min"));
}

#[test]
fn the_digest_covers_numbers_and_not_the_rhythm_of_logs() {
    let base = Config::default();
    let mut logs = base.clone();
    logs.train.log_every += 1;
    let mut gamma = base.clone();
    gamma.dqn.gamma = 0.5;
    assert_eq!(base.digest(), logs.digest());
    assert_ne!(base.digest(), gamma.digest());
}

#[test]
fn each_algorithm_is_held_to_its_own_limits() {
    let ppo = |pair: &str| resolve([Layer::from_pairs("--set", ["train.algorithm=ppo", pair]).unwrap()]);
    // 16 streams of 128 steps
    assert!(ppo("ppo.batch_size=2048").is_ok());
    assert!(ppo("ppo.batch_size=2049").unwrap_err().to_string().contains("ppo.rollout_steps times"));
    assert!(resolve([set("ppo.batch_size=2049")]).is_ok(), "another algorithm's setting");
    assert!(ppo("dqn.train_every=7").is_ok() && resolve([set("dqn.train_every=7")]).is_err());
    assert!(ppo("parallel.virtual_shards=17").unwrap_err().to_string().contains("ppo.batch_size"));
    assert!(ppo("ppo.activation=gelu").unwrap_err().to_string().contains("gelu"));
    let alone = resolve([set("parallel.work=seeds")]).unwrap_err().to_string();
    assert!(alone.contains("--seeds"), "{alone}");
    assert!(resolve([set("train.algorithm=a2c")]).unwrap_err().to_string().contains("a2c"));
    let config = ppo("network.hidden_dim_base=128").unwrap();
    assert_eq!((config.block_steps(), config.batch_rows()), (2048, 256));
    assert_eq!(config.network.actor_critic_widths(&config.ppo), (vec![128, 64], vec![256, 128, 64]));
}

#[test]
fn seeds_are_a_list_of_whole_numbers_and_rewards_are_scaled_for_markets_alone() {
    assert_eq!(resolve([set("train.seeds=[3, 0]")]).unwrap().train.seeds, [3, 0]);
    assert!(resolve([set("train.seeds=[3, 3]")]).unwrap_err().to_string().contains("different"));
    assert!(resolve([set("train.seeds=[\"a\"]")]).is_err());
    assert_eq!(resolve([set("data.instruments=[7]")]).unwrap().data.instruments, ["7"]);
    let scale = |pairs: &[&str]| {
        resolve([Layer::from_pairs("--set", pairs.iter().copied()).unwrap()]).unwrap().environment.reward_scale
    };
    assert_eq!((scale(&[]), scale(&["environment.name=cartpole"])), (100.0, 1.0));
    assert_eq!(scale(&["environment.name=cartpole", "environment.reward_scale=100"]), 100.0);
}
