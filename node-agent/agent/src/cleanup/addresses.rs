//! Addresses in what `iptables-save`, `nft list table` and `/proc/net/ip_vs` print. Pure.

use std::net::{IpAddr, Ipv4Addr};

/// Finds the addresses in the rules of iptables.
pub fn of_rules(text: &str) -> impl Iterator<Item = IpAddr> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
    text.split(move |c| !is_part(c))
        .filter_map(|word| word.parse().ok())
}

/// Finds the addresses of Services for which a table of nftables has a verdict, such as
/// `10.96.0.10 . udp . 53 : goto service-…`. A Service without endpoints for this node or IP version
/// has the verdict `drop` or `goto reject-chain`.
///
/// That an address is in a set says nothing: kube-proxy 1.36 with nft 1.0.6 leaves all verdicts out
/// when it restarts beside its own table.
pub fn of_table(text: &str) -> impl Iterator<Item = IpAddr> {
    let has_verdict = |it: &&str| it.contains(" : goto ") || it.contains(" : drop");
    let elements = text.split([',', '{']).filter(has_verdict);
    elements.filter_map(|it| it.split_whitespace().next()?.parse().ok())
}

/// Finds the addresses of virtual servers: eight hexadecimal digits for IPv4, brackets for IPv6.
pub fn of_virtual_servers(listed: &str) -> impl Iterator<Item = IpAddr> {
    listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words
            .next()
            .filter(|it| ["TCP", "UDP", "SCTP"].contains(it))?;
        let (address, _port) = words.next()?.rsplit_once(':')?;
        match address.strip_prefix('[') {
            Some(rest) => rest.trim_end_matches(']').parse().ok(),
            None => {
                let number = u32::from_str_radix(address, 16).ok()?;
                Some(Ipv4Addr::from(number).into())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: impl Iterator<Item = IpAddr>) -> Vec<String> {
        all.map(|it| it.to_string()).collect()
    }

    #[test]
    fn addresses_are_found_in_rules() {
        let rule = "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"a/b:c cluster IP\" -m tcp --dport 53 -j KUBE-SVC-ABCDEF";
        assert_eq!(found(of_rules(rule)), ["10.96.0.10"]);
        let rule = "-A KUBE-SERVICES -d fd00:96::a/128 -p udp --dport 53 -j KUBE-SVC-A";
        assert_eq!(found(of_rules(rule)), ["fd00:96::a"]);
        assert_eq!(found(of_rules(":KUBE-PROXY-CANARY - [0:0]")), [""; 0]);
    }

    #[test]
    fn addresses_are_found_where_a_table_has_a_verdict() {
        let table = "table ip kube-proxy {
            set cluster-ips { type ipv4_addr
                elements = { 10.96.0.1, 10.96.0.10 } }
            map service-ips {
                type ipv4_addr . inet_proto . inet_service : verdict
                elements = { 10.96.0.10 . udp . 53 : goto service-X,
                             fd00::1 . tcp . 443 : goto service-Y, 10.96.0.9 . tcp . 1 : goto service-Z }
            }
            map no-endpoint-services {
                elements = { 10.96.0.7 . tcp . 80 : drop, fd00::2 . tcp . 80 : goto reject-chain }
            }
            map service-nodeports { elements = { tcp . 30513 : goto external-X } }
            chain service-Y { dnat ip to numgen random mod 1 map { 0 : 10.88.0.11 . 6443 } }
        }";
        assert_eq!(
            found(of_table(table)),
            ["10.96.0.10", "fd00::1", "10.96.0.9", "10.96.0.7", "fd00::2"]
        );
        let restarted = "table ip kube-proxy {
            set cluster-ips { type ipv4_addr
                elements = { 10.96.0.1, 10.96.0.10 } }
            map service-ips { type ipv4_addr . inet_proto . inet_service : verdict }
        }";
        assert_eq!(found(of_table(restarted)), [""; 0]);
    }

    #[test]
    fn addresses_of_virtual_servers_are_found() {
        let listed = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  0A600001:01BB rr\n  -> C0000201:192B      Masq    1      0          0\nUDP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0035 rr\n";
        assert_eq!(
            found(of_virtual_servers(listed)),
            ["10.96.0.1", "fd00:96::a"]
        );
    }
}
