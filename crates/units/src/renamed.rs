//! Old names of settings and scenario keys, each with the name that replaces it, for errors about unknown keys. A name
//! may have several rows: the row applies whose new name is known in the controller or router.

/// Old and new names.
const RENAMED: &[(&str, &str)] = &[
    // routers
    ("from", "min_size"),
    ("least_max_p", "max_p_min"),
    ("longest_interval", "max_interval"),
    ("mark_by_chance", "probabilistic_marking"),
    ("mark_most", "max_mark_probability"),
    ("memory", "flow_timeout"),
    ("most", "max_virtual_capacity"),
    ("most_max_p", "max_p_max"),
    ("shortest_interval", "min_interval"),
    ("silence", "max_missed"),
    // controllers
    ("bleached_after", "cleared_codes_after"),
    ("fastest", "max_rate"),
    ("hystart", "slow_start"),
    ("least_beta", "min_beta"),
    ("least_step", "min_step"),
    ("least_window", "min_window"),
    ("most_beta", "max_beta"),
    ("most_decrease", "max_decrease"),
    ("most_growth", "max_growth"),
    ("most_step", "max_step"),
    ("no_queue", "slow_start_delay"),
    ("share_state", "use_history"),
    ("standard_for", "standard_tcp_for"),
    ("unheard_after", "missing_router_after"),
    // islands
    ("hand_on", "propagate_overload"),
    // scenarios: hosts, stalls, traffic
    ("ahead", "offset"),
    ("fast", "drift_ppm"),
    ("lasting", "duration"),
    ("lasts", "duration"),
    // transport
    ("most_timeouts", "max_timeouts"),
];

/// The new name of `old`, if it is among the `known` names.
pub(crate) fn new_name(old: &str, known: &[&str]) -> Option<&'static str> {
    RENAMED.iter().find(|(name, new)| *name == old && known.contains(new)).map(|(_, new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_has_a_new_one_only_where_that_is_known() {
        assert_eq!(new_name("memory", &["flow_timeout", "packets"]), Some("flow_timeout"));
        assert_eq!(new_name("memory", &["packets"]), None);
        assert_eq!(new_name("packets", &["packets"]), None);
    }
}
