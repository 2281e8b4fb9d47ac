//! The schemes of an evaluation: the one that is evaluated, and its rivals.

use rampmeter_linux::kernel_tcp;
use rampmeter_scenario::{Registries, stack};
use rampmeter_study::evaluation::{NO_RIVALS, Schemes};

use super::{Args, DEFAULT};
use crate::failure::Failure;

/// The rivals that a controller is compared with: those of the RFC, and the one that the Internet has besides.
const RIVALS: [&str; 3] = ["newreno", "cubic", "bbr"];

const NEEDS_EMULATION: &str = "Linux's TCP needs real packets; add --world emulated";

/// The name of the evaluated scheme: the given one, or the only controller that this command has more than `rampmeter`.
pub(super) fn own_scheme(args: &Args, registries: &Registries) -> Result<String, Failure> {
    if let Some(name) = &args.controller {
        return match stack::split(name) {
            Some(_) => Err(Failure::input(format!("`{name}` is a controller of a stack; write --stack {name}"))),
            None => Ok(name.clone()),
        };
    }
    if let Some(name) = &args.stack {
        return match stack::split(name) {
            Some(_) => Ok(name.clone()),
            None => Err(Failure::input(format!(
                "--stack {name}: write the stack and its controller, as in --stack quinn:cubic; `rampmeter stacks` \
                 lists them"
            ))),
        };
    }
    if let Some(kernel) = &args.kernel {
        if args.is_emulated() {
            return Ok(format!("linux-{kernel}"));
        }
        return Err(Failure::input(NEEDS_EMULATION));
    }
    let builtin = names_without_definition(&crate::registries());
    let own: Vec<String> =
        names_without_definition(registries).into_iter().filter(|name| !builtin.contains(name)).collect();
    match own.as_slice() {
        [name] => Ok(name.clone()),
        [] => Err(Failure::input(
            "name what to evaluate: --controller NAME, --stack STACK:CONTROLLER, --crate DIR or --kernel NAME",
        )),
        several => Err(Failure::input(format!(
            "name one of this command's own with --controller or --stack: {}",
            several.join(", ")
        ))),
    }
}

/// The schemes that need no definition: the controllers, and those of stacks.
fn names_without_definition(registries: &Registries) -> Vec<String> {
    let controllers = registries.controllers.list().map(|(name, _)| name.to_owned());
    controllers.chain(registries.stacks.schemes().map(|(name, _)| name)).collect()
}

/// The rivals: the given ones, without the evaluated scheme, or those that the suite has by default.
pub(super) fn rivals(args: &Args, scheme: &str) -> Vec<String> {
    let named = match args.against.as_slice() {
        [none] if none == NO_RIVALS => Vec::new(),
        [] if args.suite == DEFAULT => RIVALS.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    named.into_iter().filter(|rival| rival != scheme).collect()
}

/// Adds the scheme called `name` to `schemes`. An error says why this evaluation cannot run it.
pub(super) fn need(name: &str, schemes: &mut Schemes, args: &Args, registries: &Registries) -> Result<(), Failure> {
    match name.strip_prefix("linux-") {
        Some(kernel) if args.is_emulated() => drop(schemes.need_kernel(kernel)),
        Some(_) => schemes.need(name, registries).map_err(|_| Failure::input(NEEDS_EMULATION))?,
        None => schemes.need(name, registries).map_err(Failure::input)?,
    }
    if args.is_emulated() { check_kernel(name, schemes, &kernel_tcp()) } else { Ok(()) }
}

/// An error if the scheme `name` is a congestion control of Linux's TCP that is not among the `known` ones. Emulated
/// runs would refuse it too, but only when those of the other schemes have taken their time.
fn check_kernel(name: &str, schemes: &Schemes, known: &[String]) -> Result<(), Failure> {
    let algorithm = schemes.definition(name).and_then(|scheme| scheme.get("kernel")?.as_str());
    match algorithm.filter(|algorithm| !known.iter().any(|other| other == algorithm)) {
        Some(algorithm) => Err(Failure::input(format!(
            "this kernel's TCP has no congestion control called `{algorithm}`; it has {}; others may be modules: \
             modprobe tcp_{algorithm}",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rampmeter_scenario::stack::{Setup, Stack, StackHost};

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    /// A stack with these controllers.
    #[derive(Debug)]
    struct Own(&'static [&'static str]);

    impl Stack for Own {
        fn about(&self) -> &'static str {
            "of a crate"
        }

        fn controllers(&self) -> Vec<&str> {
            self.0.to_vec()
        }

        fn host(&self, _: &str, _: Setup) -> Box<StackHost> {
            unreachable!("nothing runs")
        }
    }

    #[test]
    fn the_only_controller_of_a_crates_stack_needs_no_name() {
        let own = |controllers, line: &[&str]| {
            let args = Command::try_parse_from([&["evaluate"], line].concat()).unwrap().args;
            own_scheme(&args, &crate::registries().stack("mine", Own(controllers))).map_err(|error| error.to_string())
        };
        assert_eq!(own(&["bbr"], &[]), Ok("mine:bbr".to_owned()));
        assert_eq!(own(&["bbr", "cubic"], &["--stack", "mine:cubic"]), Ok("mine:cubic".to_owned()));
        assert!(own(&["bbr", "cubic"], &[]).unwrap_err().ends_with("--stack: mine:bbr, mine:cubic"));
    }
}
