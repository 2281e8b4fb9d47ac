//! Mistakes in islands, and senders and routers of VCP that would misread each other: errors of one line.

mod common;

use common::good::{GOOD, check};

#[test]
fn invalid_islands_are_refused() {
    let island = "[[island]]\nname = \"island\"\nborders = [\"left\", \"right\"]\nrouter = { kind = \"drop-tail\" }\n\
                  settings = { weight = 3 }\nmeasure = true\n";
    let drop_tail = GOOD.replace("[scheme.tcp]\n", &format!("{island}[scheme.tcp]\n"));
    let good = drop_tail.replace("{ kind = \"drop-tail\", packets", "{ kind = \"vcp\", packets");
    check(&good).unwrap();
    for (find, replace, line, advice) in [
        ("name = \"island\"\n", "", 32, "[[island]] needs `name`"),
        ("borders = [\"left\", \"right\"]\n", "", 32, "island `island` needs `borders`"),
        ("borders = [\"left\", \"right\"]", "borders = [\"left\"]", 34, "name two or more"),
        ("borders = [\"left\", \"right\"]", "borders = [\"left\", \"left\"]", 34, "two borders called `left`"),
        ("borders = [\"left\", \"right\"]", "borders = [\"left\", \"rigt\"]", 34, "did you mean `right`?"),
        ("router = { kind = \"drop-tail\" }\n", "router = { kind = \"droptail\" }\n", 35, "drop-tail"),
        ("weight = 3", "weight = 0", 36, "1 is usual"),
        ("weight = 3", "waight = 3", 36, "did you mean `weight`?"),
        ("measure = true\n[scheme", "mesure = true\n[scheme", 37, "did you mean `measure`?"),
        ("measure = true\n[scheme", "active = 1\n[scheme", 37, "true or false"),
        ("measure = true\n[scheme", &format!("{island}[scheme"), 38, "two islands called `island`"),
        (
            "weight = 3",
            "codes = \"ect0-low\"",
            36,
            "and the VCP router of link `bottleneck` has \"ect1-low\"; give both",
        ),
        (
            "weight = 3",
            "load_interval = \"500 ms\"",
            36,
            "the VCP router of link `bottleneck` has \"200 ms\"; give both",
        ),
        ("\"vcp\", packets = 100", "\"vcp\", packets = 100, codes = \"ect0-low\"", 36, "codes = \"ect1-low\", and"),
        ("\"vcp\", packets = 100", "\"red\", packets = 100", 34, "`bottleneck` between its borders"),
        ("\"vcp\", packets = 7", "\"drop-tail\", packets = 7", 34, "give it router = { kind = \"vcp\""),
    ] {
        assert!(good.contains(find), "{find}");
        let message = check(&good.replacen(find, replace, 1)).expect_err(replace).to_string();
        assert!(message.starts_with(&format!("x.toml:{line}: ")) && message.contains(advice), "{replace}: {message}");
    }
}

// An unlimited queue before a link that is never the bottleneck needs no VCP router.
#[test]
fn an_island_has_only_vcp_routers_and_faster_unlimited_links() {
    let link = |rate: &str, router: &str| {
        format!(
            "[[link]]\nname = \"more\"\nbetween = [\"right\", \"far\"]\nrate = \"{rate}\"\ndelay = \"1 ms\"\nrouter = {router}\n\
             [[island]]\nname = \"island\"\nborders = [\"left\", \"far\"]\nrouter = {{ kind = \"drop-tail\" }}\n[[hosts]]\n"
        )
    };
    let wire = "{ kind = \"drop-tail\" }";
    for (rate, router, is_refused) in [
        ("1 Gb/s", wire, false),
        ("40 Mb/s", wire, true),
        ("1 Gb/s", "{ kind = \"drop-tail\", packets = 100 }", true),
        ("40 Mb/s", "{ kind = \"vcp\", packets = 100 }", false),
    ] {
        let text = GOOD
            .replace("{ kind = \"drop-tail\", packets", "{ kind = \"vcp\", packets")
            .replace("at = \"right\"", "at = \"far\"")
            .replacen("[[hosts]]\n", &link(rate, router), 1);
        assert_eq!(check(&text).is_err(), is_refused, "{rate}, {router}: {:?}", check(&text));
        check(&text.replace("borders", "active = false\nborders")).unwrap();
    }
}

#[test]
fn vcp_senders_that_routers_would_misread_are_refused() {
    let routers = GOOD.replace("{ kind = \"drop-tail\", packets", "{ kind = \"vcp\", packets");
    let vcp = |settings: &str| {
        let scheme = format!("controller = \"vcp\"\nsettings = {{ {settings} }}");
        routers.replace("controller = \"newreno\"\nsettings = { initial_window = 1 }", &scheme)
    };
    check(&vcp("initial_window = 1")).unwrap();
    for (settings, router_value) in [("codes = \"ect0-low\"", "ect1-low"), ("load_interval = \"0.5 s\"", "200 ms")] {
        let message = check(&vcp(settings)).unwrap_err().to_string();
        assert!(message.starts_with("x.toml:34: scheme `tcp` has ") && message.contains(router_value), "{message}");
        assert!(message.contains("`bottleneck`") && message.contains("give both the same"), "{message}");
        check(&vcp(settings).replace("kind = \"vcp\"", "kind = \"drop-tail\"")).unwrap();
    }
    for (controller, kind) in [("vcp", "vcp-plus"), ("vcp-plus", "vcp")] {
        let message = check(
            &vcp("initial_window = 1")
                .replace("controller = \"vcp\"", &format!("controller = \"{controller}\""))
                .replace("kind = \"vcp\"", &format!("kind = \"{kind}\"")),
        )
        .unwrap_err()
        .to_string();
        assert!(message.starts_with("x.toml:3") && message.contains("whose codes it would misread"), "{message}");
    }
    let without_settings = routers.replace("newreno\"\nsettings = { initial_window = 1 }", "vcp\"");
    let message = check(&without_settings.replace("packets = 100", "packets = 100, codes = \"ect0-low\"")).unwrap_err();
    assert!(message.to_string().starts_with("x.toml:32: "), "{message}");
}
