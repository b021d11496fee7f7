//! What the kernel says about this process's network: whether it has a way out, and who looked for one.

use acp_comply::results::Outside;

/// Whether there is a loopback interface and nothing else. `None` where the system does not say (not Linux).
pub fn is_loopback_only() -> Option<bool> {
    let names = interfaces(&std::fs::read_to_string("/proc/self/net/dev").ok()?);
    Some(!names.is_empty() && names.iter().all(|name| name == "lo"))
}

/// Attempts to reach outside so far, in this network namespace.
pub fn outside() -> Option<Outside> {
    let four = std::fs::read_to_string("/proc/self/net/snmp").ok()?;
    let six = std::fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    Some(counted(&four, &six))
}

/// The interfaces in the words of `/proc/net/dev`.
fn interfaces(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// `/proc/net/snmp` has a line of names and a line of numbers per protocol, `/proc/net/snmp6` a name and a number per
/// line.
fn counted(four: &str, six: &str) -> Outside {
    let in_four = |protocol: &str, name: &str| {
        let mut lines = four.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
        let at = lines.next()?.split(' ').position(|word| word == name)?;
        lines.next()?.split(' ').nth(at)?.parse::<u64>().ok()
    };
    let in_six = |name: &str| {
        let line = six.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Outside {
        no_route: in_four("Ip", "OutNoRoutes").unwrap_or(0) + in_six("Ip6OutNoRoutes").unwrap_or(0),
        no_port: in_four("Udp", "NoPorts").unwrap_or(0) + in_six("Udp6NoPorts").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_interfaces_are_read_as_the_kernel_writes_them() {
        let four = "Ip: Forwarding OutDiscards OutNoRoutes\nIp: 2 7 3\nUdp: InDatagrams NoPorts\nUdp: 9 4\n";
        let six = "Ip6OutNoRoutes                  \t5\nUdp6NoPorts                     \t6\n";
        assert_eq!(counted(four, six), Outside { no_route: 8, no_port: 10 });
        assert_eq!(counted("", ""), Outside::default());
        let dev = "Inter-|   Receive\n face |bytes    packets\n    lo:       0       0\n  eth0: 1 2\n";
        assert_eq!(interfaces(dev), ["lo", "eth0"]);
    }
}
