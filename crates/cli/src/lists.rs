//! What there is: controllers, routers, abilities of this machine.

use std::process::ExitCode;

use rampmeter_control::Registry;

use crate::failure::Failure;
use crate::table::table;

pub(crate) fn controllers(registry: &Registry) -> Result<ExitCode, Failure> {
    list("controller", registry.list())
}

pub(crate) fn routers() -> Result<ExitCode, Failure> {
    list("router", rampmeter_router::Registry::NAMES.iter().copied())
}

fn list<'a>(kind: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> Result<ExitCode, Failure> {
    let rows: Vec<Vec<String>> = names.map(|(name, about)| vec![name.to_owned(), about.to_owned()]).collect();
    print!("{}", table(&[kind.to_owned(), "what it does".to_owned()], &rows));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn probe() -> Result<ExitCode, Failure> {
    let able = rampmeter_linux::probe();
    let say = |what: &str, ability: Result<(), String>| {
        let verdict = ability.map_or_else(|reason| format!("no: {reason}"), |()| "yes".to_owned());
        println!("{what:22} {verdict}");
    };
    say("emulated world", able.emulation());
    say("  network namespaces", able.namespaces.clone());
    say("  TUN devices", able.tun.clone());
    say("  real-time priority", able.real_time.clone());
    println!("{:22} {}", "kernel TCP", able.kernel_tcp.join(", "));
    Ok(if able.emulation().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
