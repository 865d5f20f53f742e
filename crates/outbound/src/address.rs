//! Public and special IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 address embedded in an IPv6 address, otherwise the address itself.
pub(super) fn embedded_v4(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let from_halves = |high: u16, low: u16| {
                IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
            };
            match v6.segments() {
                // Mapped, compatible, NAT64 (RFC 6052) and 6to4 (RFC 3056).
                [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                    from_halves(high, low)
                }
                // Not `::` and `::1`, which are separate addresses.
                [0, 0, 0, 0, 0, 0, high, low] if high != 0 => from_halves(high, low),
                [0x2002, high, low, ..] => from_halves(high, low),
                _ => address,
            }
        }
    }
}

/// Whether an address belongs to the public internet (IANA special-purpose
/// registries, RFC 6890).
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = ip.is_unspecified()
        || a == 0
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || (a == 100 && (64..128).contains(&b)) // shared by carriers, RFC 6598
        || (a == 192 && b == 0 && c == 0) // protocol assignments
        || (a == 192 && b == 88 && c == 99) // 6to4 relays
        || (a == 198 && (18..20).contains(&b)) // benchmarks
        || a >= 240; // reserved
    !is_special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    // Only 2000::/3 is assigned for global unicast; parts of it are special.
    let is_global = (0x2000..0x4000).contains(&first);
    let is_special = match first {
        0x2001 => second < 0x0200 || second == 0x0db8, // protocols, Teredo; documentation
        0x2002 => true,                                // 6to4
        0x3fff => second < 0x1000,                     // documentation
        _ => false,
    };
    is_global && !is_special
}
