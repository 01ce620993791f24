/** Addresses of databases, of this machine and of the collector of traces: what no driver or server can use is refused at the start. */
import { describe, expect, test } from "bun:test";
import { readApiConfig } from "../../api/config.ts";
import { readWorkerConfig } from "../../worker/config.ts";

const ENV = {
  DATABASE_URL: "postgres://user@127.0.0.1:5432/x",
  RPC_URL_BASE: "http://127.0.0.1:8545",
  RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:8545",
  OTP_PEPPER: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
  JWT_SECRET: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
};

test("addresses are accepted in every form that the driver and the server take", () => {
  for (const DATABASE_URL of [
    "postgres://u:50%25@a:5432/x?target_session_attrs=primary",
    "postgresql:///x?host=/var/run/postgresql",
    "postgres://u:p,w@[::1]/x",
  ])
    expect(readApiConfig({ ...ENV, DATABASE_URL })).toMatchObject({ databaseUrl: DATABASE_URL });
  const DATABASE_READ_URL = "postgres://u:50%25@a:5432,b:5433/x";
  expect(readApiConfig({ ...ENV, DATABASE_READ_URL })).toMatchObject({ databaseReadUrl: DATABASE_READ_URL });
  for (const HOST of ["0.0.0.0", "::", "::1", "localhost", "api-1.internal"])
    expect(readApiConfig({ ...ENV, HOST })).toMatchObject({ host: HOST });
});

const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

describe("error: refuses", () => {
  const cases: [what: string, env: Record<string, string>, sentence: RegExp][] = [
    ["a database without its URL", { DATABASE_URL: "postgres://[" }, /DATABASE_URL: must be a URL/],
    [
      "a database whose port is none",
      { DATABASE_READ_URL: "postgres://x:port/db" },
      /DATABASE_READ_URL: must be a URL/,
    ],
    [
      "a database's password with a bare percent sign",
      { DATABASE_URL: "postgres://u:50%@127.0.0.1/x" },
      /DATABASE_URL: must be a URL.* write % as %25/,
    ],
    [
      "a database at several hosts, which the job queue's driver cannot read",
      { DATABASE_URL: "postgres://u:secret@a:5432,b:5433/x" },
      /^the environment has 1 fault:\n {2}- DATABASE_URL: must name a single host; if the primary can change, use a proxy/,
    ],
    ["no address to listen on", { HOST: "999.1.1.1" }, /HOST: must be an address or a host name/],
    [
      "a host name for metrics that is none",
      { METRICS_HOST: "a host" },
      /METRICS_HOST: must be an address or a host name/,
    ],
    [
      "a place for traces without a host",
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http://" },
      /OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL/,
    ],
  ];
  for (const [what, env, sentence] of cases)
    test(what, () => expect(() => readApiConfig({ ...ENV, ...env })).toThrow(sentence));
});

test("error: a BASE_URL with more than an origin, which every link and mail would repeat", () => {
  const { JWT_SECRET: _, ...worker } = { ...ENV, SMTP_URL: "smtp://127.0.0.1:25" };
  const fault = "BASE_URL: must be only an origin, for example https://pay.example.com";
  for (const rest of [
    "pay.example.com/shop",
    "pay.example.com/?a=1",
    "pay.example.com#",
    "u:p@pay.example.com",
  ]) {
    expect(() => readApiConfig({ ...ENV, BASE_URL: `https://${rest}` })).toThrow(fault);
    expect(() => readWorkerConfig({ ...worker, BASE_URL: `https://${rest}` })).toThrow(fault);
  }
  for (const rest of ["pay.example.com:443/", "PAY.example.com", "pay.example.com:8443"])
    expect(() => readApiConfig({ ...ENV, BASE_URL: `https://${rest}` })).not.toThrow();
});

test("error: a BASE_URL that is not a URL is named as the fault, by the API and by the worker", () => {
  const { JWT_SECRET: _, ...worker } = { ...ENV, SMTP_URL: "smtp://127.0.0.1:25" };
  const fault = "the environment has 1 fault:\n  - BASE_URL: must be an http(s) URL";
  for (const BASE_URL of ["pay.example.com", "https://", "https://pay example.com", "null"]) {
    expect(() => readApiConfig({ ...ENV, BASE_URL })).toThrow(fault);
    expect(() => readWorkerConfig({ ...worker, RELAYER_PRIVATE_KEYS: KEY, BASE_URL })).toThrow(fault);
  }
});
