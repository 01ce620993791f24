/** A copy of the project on a fresh server: deploy/install has its answers, and compose runs what it wrote. */
import { appendFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Engine, IMAGES } from "./engine.ts";
import { ROOT, run, runOrThrow } from "./run.ts";

export const DOMAIN = "pay.example.com";
/** Where Caddy's ports are published instead of on every address. */
export const PUBLISHED = "127.53.0.1";
const OWN_SERVICES = ["api", "worker", "indexer-1", "indexer-2", "doctor"];

export type Site = {
  folder: string;
  /** The certificates that containers and payers trust; Caddy's is appended. */
  authorities: string;
  compose: (...args: string[]) => Promise<string>;
  /** Runs a command that finds the domain at the published address. */
  fromOutside: (command: readonly string[], env: Record<string, string>) => ReturnType<typeof run>;
};

type Ports = { node: number; nodeRelay: number };

export async function copyProject(project: string): Promise<void> {
  mkdirSync(project);
  const files = 'git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -C "$0" -x';
  await runOrThrow(["sh", "-c", files, project]);
  for (const name of ["node_modules", ".tools"]) symlinkSync(join(ROOT, name), join(project, name));
}

export async function openSite(engine: Engine, project: string, ports: Ports): Promise<Site> {
  const folder = join(project, "deploy/compose");
  const authorities = join(project, "authorities.pem");
  appendFileSync(authorities, "");
  const files = [join(folder, "compose.here.yaml"), join(folder, "compose.override.json")] as const;
  writeFileSync(files[0], adapt(readFileSync(join(folder, "compose.yaml"), "utf8"), await openFilesMax()));
  const loaded = {
    entrypoint: ["/usr/local/bin/bun", "--no-env-file", "--preload", "/node-relay.mjs"],
    environment: {
      NODE_EXTRA_CA_CERTS: "/authorities.pem",
      NODE_PORT: String(ports.node),
      NODE_RELAY_PORT: String(ports.nodeRelay),
      NODE_RELAY_HOST: engine.address,
    },
    volumes: [
      `${authorities}:/authorities.pem:ro`,
      `${join(ROOT, "tests/deploy/compose/node-relay.mjs")}:/node-relay.mjs:ro`,
    ],
  };
  const services = {
    ...Object.fromEntries(OWN_SERVICES.map((name) => [name, loaded])),
    // what a public name server would say
    caddy: { networks: { outside: { aliases: [DOMAIN] } } },
  };
  writeFileSync(files[1], JSON.stringify({ services }));
  const env = {
    ...engine.env,
    IMAGE: IMAGES.service,
    CADDY_IMAGE: IMAGES.caddy,
    POSTGRES_IMAGE: IMAGES.postgres,
    POSTGRES_SHARED_BUFFERS: "128MB",
    CADDY_OPTIONS: "local_certs\nskip_install_trust",
  };
  const program = ["docker-compose", "-p", "payments", ...files.flatMap((file) => ["-f", file])];
  const hosts = join(project, "hosts");
  writeFileSync(hosts, `127.0.0.1 localhost\n${PUBLISHED} ${DOMAIN}\n`);
  return {
    folder,
    authorities,
    compose: (...args) => runOrThrow([...program, ...args], { cwd: project, env }),
    fromOutside: (command, extra) =>
      run(
        ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, ...command],
        {
          env: { NODE_EXTRA_CA_CERTS: authorities, ...extra },
        },
      ),
  };
}

/** For docker-compose 1.29, which does not know `name`; for a machine whose ports 80 and 443 are its own, and that may open fewer files. */
function adapt(text: string, filesMax: number): string {
  const adapted = text
    .replace(/^name: .*$/m, "")
    .replace('"80:80", "443:443", "443:443/udp"', `"${PUBLISHED}:80:80", "${PUBLISHED}:443:443"`)
    .replace(/(soft|hard): 65536/g, `$1: ${Math.min(65_536, filesMax)}`);
  if (!adapted.includes(PUBLISHED)) throw new Error("compose.yaml publishes other ports than 80 and 443");
  return adapted;
}

async function openFilesMax(): Promise<number> {
  const text = await runOrThrow(["sh", "-c", "ulimit -Hn"]);
  return text === "unlimited" ? Number.POSITIVE_INFINITY : Number(text);
}
