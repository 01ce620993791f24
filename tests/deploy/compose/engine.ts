/** A Docker engine of its own in a folder, and the images that are not on this machine, made of Debian's packages. */
import { cpSync, existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { findPostgresBinaries } from "../../../local/postgres/binaries.ts";
import { spawnBound } from "../../../local/processes/bound-process.ts";
import { waitFor } from "../../support/relay-lab.ts";
import { ROOT, run, runOrThrow } from "./run.ts";

export type Engine = {
  /** Runs `docker` with these arguments and gives what it prints. */
  docker: (...args: string[]) => Promise<string>;
  env: { DOCKER_HOST: string };
  /** An address of this machine that every container reaches. */
  address: string;
  stop: () => Promise<void>;
};

export const IMAGES = {
  base: "compose-start-base",
  node: "compose-start-node",
  caddy: "compose-start-caddy",
  postgres: "compose-start-postgres",
  service: "compose-start-service",
} as const;

const MIRROR = "http://deb.debian.org/debian";
const PACKAGES = ["ca-certificates", "caddy", "libstdc++6", "netbase", "postgresql-client"];
const AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt";
const START_MS = 120_000;
const STOP_MS = 60_000;
const LOG_TAIL_CHARS = 4_000;

export async function startEngine(folder: string): Promise<Engine> {
  const env = { DOCKER_HOST: `unix://${join(folder, "docker.sock")}` };
  let log = "";
  const daemon = await spawnBound({
    command: "dockerd",
    args: [
      ...["--data-root", join(folder, "data"), "--exec-root", join(folder, "exec")],
      ...["--pidfile", join(folder, "docker.pid"), "--host", env.DOCKER_HOST],
    ],
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      log = (log + String(chunk)).slice(-LOG_TAIL_CHARS);
    },
  });
  void daemon.exited.then((code) => code !== 0 && console.error(`dockerd ended with ${code}:\n${log}`));
  const docker = (...args: string[]) => runOrThrow(["docker", ...args], { env });
  await waitFor(
    "the Docker engine",
    async () => (await run(["docker", "info"], { env })).code === 0,
    START_MS,
  ).catch((error) => {
    throw new Error(log, { cause: error });
  });
  const address = await docker(
    ...["network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}"],
  );
  return { docker, env, address, stop: () => daemon.stop(STOP_MS) };
}

/** Debian with Caddy and a Postgres client, imported as the base of the others. Kept when the engine has it. */
export async function makeStandIns({ docker, env }: Engine, folder: string): Promise<void> {
  if ((await docker("images", "--quiet", IMAGES.base)) === "") {
    const system = join(folder, "debian");
    if (!existsSync(join(system, "usr/bin/caddy")))
      await runOrThrow([
        ...[
          "debootstrap",
          "--variant=minbase",
          `--include=${PACKAGES.join(",")}`,
          "bookworm",
          system,
          MIRROR,
        ],
      ]);
    const pipe = `tar -C "$0" --exclude=./var/cache/apt/archives/*.deb -c . | docker import - ${IMAGES.base}`;
    await runOrThrow(["sh", "-c", pipe, system], { env });
  }
  const context = join(folder, "context");
  mkdirSync(context, { recursive: true });
  const copy = (from: string, to: string) =>
    cpSync(from, join(context, to), { recursive: true, dereference: true });
  copy(join(ROOT, "tests/deploy/compose"), ".");
  copy(findPostgresBinaries(), "native");
  copy(realpathSync(Bun.which("node") ?? ""), "node");
  copy(dirname(dirname(realpathSync(Bun.which("npm") ?? ""))), "npm");
  copy(AUTHORITIES, "authorities.crt");
  for (const name of ["node", "caddy", "postgres"] as const)
    await docker(
      ...["build", "--quiet", "--build-arg", `BASE_IMAGE=${IMAGES.base}`],
      ...["--file", join(context, `Dockerfile.${name}`), "--tag", IMAGES[name], context],
    );
}

/** With deploy/Dockerfile from a copy of the project. Prints how much the service adds to its base. */
export async function buildService({ docker }: Engine, project: string): Promise<number> {
  const registry = process.env.NPM_CONFIG_REGISTRY ?? process.env.npm_config_registry;
  await docker(
    ...["build", "--network", "host", "--tag", IMAGES.service],
    ...["--build-arg", `BUILD_IMAGE=${IMAGES.node}`, "--build-arg", `BASE_IMAGE=${IMAGES.base}`],
    ...(registry ? ["--build-arg", `NPM_CONFIG_REGISTRY=${registry}`] : []),
    ...["--file", join(project, "deploy/Dockerfile"), project],
  );
  const sizeOf = async (image: string) => Number(await docker("inspect", "--format", "{{.Size}}", image));
  return (await sizeOf(IMAGES.service)) - (await sizeOf(IMAGES.base));
}
