export default { test: { include: ['vitest/*.test.mjs'], testTimeout: 120_000 } };
