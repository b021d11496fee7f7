use super::*;

#[test]
fn every_phrase_compiles() {
    for wish in TABLE {
        for phrase in wish.phrases {
            assert!(compile(phrase).is_ok(), "{}: {phrase}: {:?}", wish.name, compile(phrase).err());
        }
    }
}
