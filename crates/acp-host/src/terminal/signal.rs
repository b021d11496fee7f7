/// The name of a signal as exit statuses give it.
pub(crate) fn name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
    index.and_then(|i| NAMES.get(i)).map_or_else(|| number.to_string(), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn signals_have_their_usual_names() {
        assert_eq!([9, 15, 6, 2].map(super::name), ["SIGKILL", "SIGTERM", "SIGABRT", "SIGINT"]);
        assert_eq!(super::name(40), "40");
    }
}
