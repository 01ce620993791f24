/** Lines of `npm start` in a terminal and in a file. */
import { expect, test } from "bun:test";
import type { DevEnvironment } from "../../local/dev-environment.ts";
import { readLocalSettings } from "../../local/local-settings.ts";
import { listAddresses, withHangingIndent } from "../../local/terminal-output.ts";

const HASH = `0x${"7a".repeat(32)}`;

test("in a terminal a long line continues below the first word, and a hash stays whole", () => {
  expect(withHangingIndent("  payer  ", `answers 200: relayed as ${HASH} at last`, 40).split("\n")).toEqual([
    "  payer  answers 200: relayed as",
    `         ${HASH}`,
    "         at last",
  ]);
});

test("lines that fit, and every line into a file or a pipe, are unchanged", () => {
  expect(withHangingIndent("  payer  ", "signs an authorization", 80)).toBe(
    "  payer  signs an authorization",
  );
  expect(withHangingIndent("  payer  ", `answers 200: relayed as ${HASH}`, undefined)).toBe(
    `  payer  answers 200: relayed as ${HASH}`,
  );
});

test("a terminal that is narrower than the label still has room for words", () => {
  expect(withHangingIndent(" ".repeat(23), "proves the address with the code", 20).split("\n")).toEqual([
    `${" ".repeat(23)}proves the address with the`,
    `${" ".repeat(23)}code`,
  ]);
});

test("addresses that were given are shown by their variables, without a password or an API key", () => {
  const own: DevEnvironment = {
    databaseUrl: "postgres://u:PASSWORD@db.example.com/x",
    rpcUrls: { base: "http://127.0.0.1:8545", "base-sepolia": "https://node.example.com/v2/KEY" },
    ...{ smtpUrl: "smtp://u:PASSWORD@mail.example.com", mailbox: undefined, localNetworks: ["base"] },
  };
  const settings = readLocalSettings({
    ...{ NETWORKS: "base,base-sepolia", DATABASE_URL: own.databaseUrl, SMTP_URL: own.smtpUrl },
    ...{ RPC_URL_BASE_SEPOLIA: own.rpcUrls["base-sepolia"], RELAYER_PRIVATE_KEYS: "0x1" },
  });
  const rows = Object.fromEntries(listAddresses(settings, own, "http://127.0.0.1:3000"));
  expect(rows).toMatchObject({
    ...{ Database: "DATABASE_URL", Mailbox: "SMTP_URL" },
    ...{ "Chain base": "http://127.0.0.1:8545", "Chain base-sepolia": "RPC_URL_BASE_SEPOLIA" },
  });
  expect(JSON.stringify(rows)).not.toMatch(/PASSWORD|KEY/);
});
