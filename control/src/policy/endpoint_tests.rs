use super::*;

fn connects(endpoint: &str, to: &str) -> bool {
    Endpoint::parse_connect(endpoint).unwrap().reaches(to.parse().unwrap())
}

fn listens(endpoint: &str, at: &str) -> bool {
    Endpoint::parse_listen(endpoint).unwrap().contains(at.parse().unwrap())
}

#[test]
fn host_and_port_are_matched_each_by_itself() {
    assert!(connects("127.0.0.1:80", "127.0.0.1:80"));
    assert!(!connects("127.0.0.1:80", "127.0.0.1:81"));
    assert!(!connects("127.0.0.1:80", "127.0.0.2:80"));
    assert!(connects("*:8000-8099", "[2001:db8::1]:8099"));
    assert!(!connects("*:8000-8099", "10.0.0.1:8100"));
    assert!(connects("[::1]:*", "[::1]:7"));
    assert!(connects("*", "10.0.0.1:1"));
    assert!(connects("[::ffff:10.0.0.1]:5", "10.0.0.1:5"));
}

#[test]
fn localhost_is_both_loopback_addresses_and_other_names_wait_for_a_look_up() {
    assert!(connects("localhost:6379", "127.0.0.1:6379"));
    assert!(connects("LOCALHOST.:6379", "[::1]:6379"));
    assert!(!connects("localhost:6379", "127.0.0.2:6379"));
    assert!(!connects("*:6379", "127.0.0.1:1"));
    assert!(!connects("db.example.org:5432", "10.0.0.1:5432"));
}

#[test]
fn listening_at_all_own_addresses_takes_in_each_and_not_the_other_way() {
    assert!(listens("8080", "0.0.0.0:8080"));
    assert!(listens("8080", "[::]:8080"));
    assert!(listens("0.0.0.0:8080", "127.0.0.1:8080"));
    assert!(!listens("0.0.0.0:8080", "[::1]:8080"));
    assert!(listens("[::]:8080", "127.0.0.1:8080"));
    assert!(!listens("127.0.0.1:8080", "0.0.0.0:8080"));
    assert!(listens("localhost:8080", "127.0.0.1:8080"));
    assert!(listens("127.0.0.1:0", "127.0.0.1:0"));
    assert!(!listens("127.0.0.1:0", "127.0.0.1:4000"));
}

#[test]
fn endpoints_read_back_as_they_are_written() {
    for text in ["*", "*:80", "127.0.0.1:8080", "[::1]:80", "*.example.org:443", "*:1-9", "a:*"] {
        let endpoint = Endpoint::parse_connect(text).unwrap();
        assert_eq!(endpoint.to_string(), text);
    }
    assert_eq!(Endpoint::parse_listen("8080").unwrap().to_string(), "*:8080");
    assert_eq!(Endpoint::parse_listen("*:8080"), Endpoint::parse_listen("8080"));
}

#[test]
fn mistakes_say_what_to_write_instead() {
    let connect = |text: &str| Endpoint::parse_connect(text).unwrap_err().to_string();
    let listen = |text: &str| Endpoint::parse_listen(text).unwrap_err().to_string();
    assert!(connect("8080").contains("write 127.0.0.1:8080 for this machine"));
    assert!(connect("example.org").contains("write example.org:443"));
    assert!(connect("::1:80").contains("in brackets, as [::1]:80"));
    assert!(connect("[::1]").contains("no port"));
    assert!(connect("[1.2.3.4]:80").contains("no IPv6 address"));
    assert!(connect("0.0.0.0:80").contains("write 127.0.0.1"));
    for port in ["0", "65536", "9-1", "+1", "0-4", "", "http"] {
        assert!(connect(&format!("a:{port}")).contains("is no port"), "{port}");
    }
    assert!(listen("db:80").contains("to listen write an own address"));
    assert!(listen("http").contains("is no port"));
    assert!(connect("a b:1").contains("letters, digits"));
}
