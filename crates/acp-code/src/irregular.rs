//! Forms of English words that no ending explains: data.

/// A word and its forms.
const FORMS: &[&[&str]] = &[
    &["begin", "began", "begun"],
    &["break", "broke", "broken"],
    &["bring", "brought"],
    &["build", "built"],
    &["buy", "bought"],
    &["catch", "caught"],
    &["child", "children"],
    &["choose", "chose", "chosen"],
    &["criterion", "criteria"],
    &["deal", "dealt"],
    &["draw", "drawn", "drew"],
    &["drive", "driven", "drove"],
    &["eat", "ate", "eaten"],
    &["fall", "fallen"],
    &["feed", "fed"],
    &["fight", "fought"],
    &["find", "found"],
    &["fly", "flew", "flown"],
    &["forbid", "forbade", "forbidden"],
    &["forget", "forgot", "forgotten"],
    &["freeze", "froze", "frozen"],
    &["get", "got", "gotten"],
    &["give", "gave", "given"],
    &["grow", "grew", "grown"],
    &["hear", "heard"],
    &["hide", "hid", "hidden"],
    &["hold", "held"],
    &["index", "indices"],
    &["keep", "kept"],
    &["know", "knew", "known"],
    &["lead", "led"],
    &["lend", "lent"],
    &["lose", "lost"],
    &["make", "made"],
    &["matrix", "matrices"],
    &["mean", "meant"],
    &["meet", "met"],
    &["override", "overridden", "overrode"],
    &["overwrite", "overwritten", "overwrote"],
    &["pay", "paid"],
    &["ring", "rang", "rung"],
    &["rise", "risen"],
    &["run", "ran"],
    &["seek", "sought"],
    &["sell", "sold"],
    &["send", "sent"],
    &["shake", "shaken", "shook"],
    &["shrink", "shrank", "shrunk"],
    &["sleep", "slept"],
    &["speak", "spoke", "spoken"],
    &["spend", "spent"],
    &["steal", "stole", "stolen"],
    &["stick", "stuck"],
    &["strike", "struck"],
    &["take", "taken", "took"],
    &["teach", "taught"],
    &["tell", "told"],
    &["think", "thought"],
    &["throw", "threw", "thrown"],
    &["understand", "understood"],
    &["vertex", "vertices"],
    &["wake", "woke", "woken"],
    &["wear", "worn"],
    &["win", "won"],
    &["withdraw", "withdrawn"],
    &["write", "written", "wrote"],
];

/// The word of which this is a form; most words are their own.
pub(crate) fn base(word: &str) -> &str {
    FORMS.iter().find(|forms| forms[1..].contains(&word)).map_or(word, |forms| forms[0])
}

/// The forms of the word with this stem.
pub(crate) fn forms(stem: &str) -> &'static [&'static str] {
    FORMS.iter().find(|forms| crate::words::stem(forms[0]) == stem).map_or(&[], |forms| &forms[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_lead_to_their_word_and_back() {
        assert!(FORMS.is_sorted());
        assert_eq!((base("sent"), base("send"), base("sending")), ("send", "send", "sending"));
        assert_eq!(forms("write"), ["written", "wrote"]);
        assert!(forms("pars").is_empty());
    }
}
