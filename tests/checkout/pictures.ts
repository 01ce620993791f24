/**
 * Pictures of every state of the payment page, light and dark, on a phone and a desk, with and without the merchant's branding, to be viewed
 * before a release: `bun tests/checkout/pictures.ts [folder] [part of a name]`.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { visit } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";
import { roundLogo } from "./make-png.ts";
import { listStates, type PictureState } from "./picture-states.ts";

const SIZES = { phone: { width: 360, height: 740 }, desk: { width: 1280, height: 800 } } as const;
const SCHEMES = ["light", "dark"] as const;
/** Of the pictures on the sheet that shows all of them. */
const SHEET_WIDTHS = { phone: 270, desk: 640 };

const TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";

const [folder = ".data/pictures", only = ""] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const world = await startCheckoutWorld({
  env: { CONFIRMATIONS_BASE_SEPOLIA: "3" },
});
const taken: { name: string; file: string; size: string; scheme: string }[] = [];
try {
  await world.ann.client.patch("/v1/auth/me", { displayName: "Café Aurora" });
  await takeAll("plain");
  await world.ann.client.patch("/v1/settings/pages", { accentColor: "#c41e5a" });
  await world.ann.client.post("/v1/settings/pages/logo", { image: roundLogo().toString("base64") });
  await takeAll("looks");
  makeSheet();
} finally {
  await world.stop();
}
process.exit(0);

async function takeAll(looks: string): Promise<void> {
  for (const state of (await listStates(world)).filter(({ name }) => name.includes(only)))
    await take(world, state, looks).catch((error) => console.error(`${state.name}: ${error}`));
}

async function take({ browser, world: { baseUrl } }: CheckoutWorld, state: PictureState, looks: string) {
  const { page, close } = await visit(browser, baseUrl + state.path, {
    viewport: SIZES.phone,
    ...(state.isPhone ? { isMobile: true, hasTouch: true } : {}),
    ...(state.isScriptless ? { javaScriptEnabled: false } : {}),
    prepare: async (page) => {
      await state.prepare?.(page);
      for (const wallet of state.wallets ?? []) await wallet.install(page);
    },
  });
  try {
    if (!state.isScriptless) await page.locator(".placeholder").waitFor({ state: "detached" });
    if (state.wallets) await page.locator("#pay").locator("button, h2").first().waitFor();
    await state.act?.(page);
    for (const [size, viewport] of Object.entries(SIZES))
      for (const colorScheme of SCHEMES) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        // a picture of a busy machine's half-painted page would show what no reader sees; without scripts nothing can be asked
        if (!state.isScriptless) await page.evaluate(TWO_FRAMES);
        const file = `${looks}-${state.name.replaceAll(/\W+/g, "-")}-${size}-${colorScheme}.png`;
        await page.screenshot({ path: join(folder, file), fullPage: true });
        taken.push({ name: `${state.name} (${looks})`, file, size, scheme: colorScheme });
      }
    console.log(`${looks}: ${state.name}`);
  } finally {
    await close();
  }
}

/** One page that shows all pictures. */
function makeSheet(): void {
  const figures = taken.map(
    ({ name, file, size, scheme }) =>
      `<figure class="${size} ${scheme}"><img src="${file}"><figcaption>${name}</figcaption></figure>`,
  );
  const style = `body{font:14px sans-serif;background:#888;display:flex;flex-wrap:wrap;gap:8px;align-items:start}
figure{margin:0;background:#fff}.phone img{width:${SHEET_WIDTHS.phone}px}.desk img{width:${SHEET_WIDTHS.desk}px}`;
  writeFileSync(join(folder, "index.html"), `<!doctype html><style>${style}</style>${figures.join("")}`);
  console.log(`${taken.length} pictures in ${folder}; open index.html`);
}
