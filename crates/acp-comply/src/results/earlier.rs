//! Results of earlier versions, brought to the present form.

use serde_json::Value;

/// Version 1 said how strongly a finding binds, not what it means for a verdict.
pub(super) fn from_version_1(results: &mut Value) {
    let agents = results.get_mut("agents").and_then(Value::as_array_mut);
    for agent in agents.into_iter().flatten() {
        upgrade_findings(agent);
        let tests = agent.get_mut("tests").and_then(Value::as_array_mut);
        tests.into_iter().flatten().for_each(upgrade_findings);
    }
}

fn upgrade_findings(holder: &mut Value) {
    let findings = holder.get_mut("findings").and_then(Value::as_array_mut);
    for finding in findings.into_iter().flatten().filter_map(Value::as_object_mut) {
        let severity = finding.remove("severity");
        let grade = match severity.as_ref().and_then(Value::as_str) {
            Some("must") => "fail",
            _ => "warn",
        };
        finding.entry("grade").or_insert_with(|| Value::from(grade));
    }
}
