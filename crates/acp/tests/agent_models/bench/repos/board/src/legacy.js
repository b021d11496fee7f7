function legacy(a) {
  var b = a;
  return b;
}

module.exports = legacy;
