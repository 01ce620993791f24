/** The dashboard's texts in other languages: all of them, each once, with the placeholders of the English text. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { OPERATION_WARNINGS, type OperationWarning } from "../../core/domain/wallet-operation.ts";
import { readPayout } from "../../web/dashboard/send/parse-payout.ts";
import { randomAddress } from "../support/indexer-lab.ts";

const ROOT = join(import.meta.dir, "../..");

describe("translations", () => {
  const sources = [...new Bun.Glob("**/*.{ts,tsx}").scanSync(join(ROOT, "web/dashboard"))]
    .map((file) => readFileSync(join(ROOT, "web/dashboard", file), "utf8"))
    .join("\n");
  const translations = [...new Bun.Glob("*.json").scanSync(join(ROOT, "web/messages/dashboard"))].map(
    (file): [string, Record<string, string>] => [
      file,
      JSON.parse(readFileSync(join(ROOT, "web/messages/dashboard", file), "utf8")),
    ],
  );
  const [own, to] = [randomAddress(), randomAddress()];
  const valuesOf = (text = "") => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort();
  const keyOf = (code: string) => `warning ${code}`;

  test("translate only texts that the dashboard uses, with the same placeholders", () => {
    const warnings = new Set(OPERATION_WARNINGS.map(keyOf));
    for (const [file, messages] of translations)
      for (const [english, text] of Object.entries(messages)) {
        if (warnings.has(english) || english.startsWith("error ")) continue;
        // of reasons it says which the service gives: error-texts.test.ts
        if (!english.startsWith("reason "))
          expect([file, english, sources.includes(JSON.stringify(english))]).toEqual([file, english, true]);
        expect(valuesOf(text)).toEqual(valuesOf(english));
      }
  });

  test("cover every text: of screens, the security trail, the scopes of a key and the lines of a payout", () => {
    const trail = readFileSync(join(ROOT, "web/dashboard/account/security-event-texts.ts"), "utf8");
    const keys = readFileSync(join(ROOT, "web/dashboard/developers/api-keys.tsx"), "utf8");
    const said = [
      ...[...sources.matchAll(/\bsay\(\s*("(?:[^"\\]|\\.)*")/g)].map(([, text = ""]) => JSON.parse(text)),
      ...[...sources.matchAll(/\bsayCount\([^"]*("[^"]*"),\s*("[^"]*")/g)].flatMap(
        ([, one = "", many = ""]) => [JSON.parse(one), JSON.parse(many)],
      ),
      ...[...`${trail}${keys}`.matchAll(/^ {2}[\w":]+: (".*"),$/gm)].map(([, text = ""]) => JSON.parse(text)),
      // also those that reach it by a variable or a table
      ...[...sources.matchAll(/"([A-Z][^"\\]* [^"\\]*[.…])"/g)].map(([, text = ""]) => text),
      ...["", "0x12,1", `${own},1`, `${to},x`, `${to},0`, `${to},1,50`, `${to},1\n${to},1`].flatMap((lines) =>
        readPayout(lines, own).flatMap(({ fault }) => fault ?? []),
      ),
    ];
    expect(said.length).toBeGreaterThan(400);
    for (const [file, messages] of translations)
      expect([file, said.filter((text) => messages[text] === undefined)]).toEqual([file, []]);
  });

  test("have each text once", () => {
    for (const [file, messages] of translations) {
      const written = readFileSync(join(ROOT, "web/messages/dashboard", file), "utf8");
      const keys = [...written.matchAll(/^ {2}"((?:[^"\\]|\\.)*)": "/gm)].map(([, key = ""]) =>
        JSON.parse(`"${key}"`),
      );
      expect([file, keys]).toEqual([file, Object.keys(messages)]);
    }
  });

  test("have a text for each warning, with the placeholders of the API's message", () => {
    const values: Record<OperationWarning, string[]> = {
      new_recipient: ["{to}"],
      resembles_known_recipient: ["{other}", "{to}"],
      recipient_is_contract: ["{to}"],
      payer_may_be_an_exchange: ["{to}"],
      payer_is_a_contract: ["{to}"],
      single_owner: [],
      owner_on_other_network: ["{network}"],
    };
    for (const [file, messages] of translations)
      for (const code of OPERATION_WARNINGS)
        expect([file, code, valuesOf(messages[keyOf(code)])]).toEqual([file, code, values[code]]);
    expect(translations.length).toBeGreaterThan(0);
  });
});
