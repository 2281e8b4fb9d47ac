//! What there is: controllers, routers, abilities of this machine.

use std::process::ExitCode;

use rampmeter_control::Registry;

use crate::table::table;

pub(crate) fn controllers(registry: &Registry) -> ExitCode {
    list("controller", registry.list())
}

pub(crate) fn routers() -> ExitCode {
    list("router", rampmeter_router::Registry::NAMES.iter().copied())
}

fn list<'a>(kind: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> ExitCode {
    let rows: Vec<Vec<String>> = names.map(|(name, about)| vec![name.to_owned(), about.to_owned()]).collect();
    print!("{}", table(&[kind.to_owned(), "what it does".to_owned()], &rows));
    ExitCode::SUCCESS
}

pub(crate) fn probe() -> ExitCode {
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
    if able.emulation().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
