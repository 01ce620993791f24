/** `doctor` names variables that look like a setting and are none: a process would use its default. */
import { expect, test } from "bun:test";
import { findMisspeltSettings } from "../../ops/doctor/misspelt-settings.ts";

const named = (...names: string[]) =>
  findMisspeltSettings(Object.fromEntries(names.map((name) => [name, "1"]))).map(({ text }) => text);

test.each([
  ["RELAYER_PRIVATE_KEY", "RELAYER_PRIVATE_KEYS"],
  ["JWT_SECRETS_FILE", "JWT_SECRET"],
  ["CONFIRMATION_BASE", "CONFIRMATIONS_BASE"],
  ["LOGLEVEL", "LOG_LEVEL"],
  ["RELAY_DAILY_FEE_MAX", "RELAY_DAILY_FEE_MAX_WEI"],
  ["RPC_URL_SEPOLIA", "RPC_URL_BASE_SEPOLIA"],
  ["BACKUP_KEYS", "BACKUP_KEY"],
])("%s is reported as ignored, with %s", (given, meant) => {
  expect(named(given)).toEqual([
    `${given} is not a setting of this service and is ignored; did you mean ${meant}?`,
  ]);
});

test("settings, their files and variables of other programs are not reported", () => {
  const own = ["DATABASE_URL", "JWT_SECRET_FILE", "RELAYER_SIGNER_URL_BASE", "DATA_DIR", "BACKUP_KEY"];
  const others = ["PATH", "HOSTNAME", "LOGNAME", "TEST_DATABASE_URL", "OTEL_TRACES_SAMPLER", "SERVICE_URL"];
  expect(named(...own, ...others)).toEqual([]);
  expect(findMisspeltSettings({ LOGLEVEL: "" })).toEqual([]);
});
