//! What to say about a `--fault` that is well formed but may never happen.

use acp_comply::did_you_mean;
use acp_proto::Method;
use acp_script::faults::Fault;

/// Warns of a method that looks misspelt. Names of extensions begin with `_`.
pub fn warn(command: &str, spec: &str, fault: &Fault) {
    let methods = fault.select.method.iter().chain(&fault.select.to);
    for method in methods.filter(|method| !method.starts_with('_')) {
        let known = || Method::ALL.iter().map(|known| known.as_str());
        let meant = did_you_mean(method, known());
        // Other dialects have names of their own, which resemble none of these.
        if !meant.is_empty() && known().all(|known| known != method) {
            eprintln!("{command}: --fault {spec:?}: the protocol has no method {method}{meant}");
        }
    }
}
