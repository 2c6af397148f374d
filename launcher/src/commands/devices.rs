//! `foxlaunch devices`: what is here, and what a launch would use.

use super::{Done, Refusal};
use crate::cli::LaunchOptions;
use crate::devices::{nvml, visible};
use crate::process::print;
use clap::Args;
use foxlaunch_shared::{env, exit};

/// Show the devices of this machine.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
pub fn devices(args: &DevicesArgs, options: &LaunchOptions) -> Done {
    let (gpus, trouble) = match nvml::gpus() {
        Ok(gpus) => (gpus, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let inherited = std::env::var(env::CUDA_VISIBLE_DEVICES).ok();
    let refused = |error: visible::VisibleError| Refusal::new(exit::UNAVAILABLE, error);
    let request = options.gpus.clone().unwrap_or(visible::Gpus::All);
    let chosen = if gpus.is_empty() {
        Vec::new()
    } else {
        let visible = visible::visible(inherited.as_deref(), &gpus).map_err(refused)?;
        visible::select(&request, &visible, &gpus).map_err(refused)?
    };
    let cores = crate::process::allowed_cores();
    if args.json {
        let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        let answer = serde_json::json!({ "cores": cores, "gpus": gpus, "selected": chosen, "trouble": trouble });
        print::out(format_args!("{answer:#}"));
        return Ok(exit::OK);
    }
    print::out(format_args!("processor: {cores} cores allowed"));
    for gpu in &gpus {
        let gib = gpu.memory_bytes as f64 / f64::from(1 << 30);
        print::out(format_args!("gpu {}: {}, {gib:.0} GiB, {}, {}", gpu.index, gpu.name, gpu.uuid, gpu.pci_bus_id));
    }
    if let Some(trouble) = trouble {
        print::out(format_args!("no gpus: {trouble}"));
    } else {
        let used = if chosen.is_empty() { "the processor".to_owned() } else { visible::join(&chosen) };
        print::out(format_args!("a launch would use: {used}"));
    }
    Ok(exit::OK)
}
