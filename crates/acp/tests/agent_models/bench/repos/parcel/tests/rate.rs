use parcel::Rates;

#[test]
fn a_kilo_costs_base_and_rate() {
    assert_eq!(Rates::new(100, 50).price(1000), Some(150));
}
