//! Old names of settings are refused with the new ones.

use rampmeter_router::Registry;

#[test]
fn an_old_setting_is_refused_with_its_new_name() {
    for (router, old, new) in [
        ("avq", "most", "max_virtual_capacity"),
        ("fair-share", "memory", "flow_timeout"),
        ("fair-share", "silence", "max_missed"),
        ("policer", "from", "min_size"),
        ("red", "least_max_p", "max_p_min"),
        ("red", "most_max_p", "max_p_max"),
        ("vcp", "mark_by_chance", "probabilistic_marking"),
        ("vcp", "mark_most", "max_mark_probability"),
        ("xcp", "longest_interval", "max_interval"),
        ("xcp", "shortest_interval", "min_interval"),
    ] {
        let error = Registry::default().config(router, &format!("{old} = 1").parse().unwrap()).unwrap_err().to_string();
        let expected = format!("router `{router}`: there is no `{old}` among its settings; its name is `{new}`");
        assert_eq!(error, expected);
    }
}
