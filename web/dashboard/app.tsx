/** The frame around every screen: navigation, the signed-in person, and the screen for the URL. */
import { useEffect, useState } from "preact/hooks";
import { useLiveEvents } from "./frame/event-stream.ts";
import { Shortcuts } from "./frame/keyboard-shortcuts.tsx";
import { Later } from "./frame/later.tsx";
import { actingMerchant, type Capability, can, chooseMerchant, forMerchant } from "./frame/merchant.ts";
import { isTestOnly, page } from "./frame/page-data.ts";
import { Link, usePlace } from "./frame/router.tsx";
import { LATER_PATHS, type ScreenComponent, type ScreenProps } from "./frame/screen-props.ts";
import { type Me, PasskeyDialog } from "./frame/session.tsx";
import { say } from "./frame/texts.ts";
import { LinkDetail } from "./links/link-detail.tsx";
import { LinkList } from "./links/link-list.tsx";
import { Overview } from "./overview/overview.tsx";
import { Button, Choice, Notice } from "./parts/controls.tsx";
import { Empty, Screen, Skeleton } from "./parts/page-parts.tsx";

/** The first screens are loaded with the page; the others when one of them is opened. */
const AT_ONCE: Readonly<Record<string, ScreenComponent>> = {
  "/": Overview,
  "/links": LinkList,
  "/links/:id": LinkDetail,
};
type Entry = readonly [path: string, text: string];

/** What a member's role must include for a screen; the others are for every member. */
const NEEDS: Readonly<Record<string, Capability>> = {
  "/exports": "exports",
  "/saved-exports": "exports",
  "/exchange-rates": "exports",
  "/statements": "exports",
  "/send": "money:send",
  "/payout": "money:send",
  "/developers/keys": "keys:manage",
  "/developers/webhooks": "webhooks:manage",
  "/settings": "settings:write",
};
const isOffered = (path: string) => {
  const need = NEEDS[path];
  return need === undefined || can(need);
};

const menu = (): { title: string; entries: Entry[] }[] => [
  {
    title: say("Receive"),
    entries: [
      ["/", say("Overview")],
      ["/links", say("Links")],
      ["/transactions", say("Transactions")],
    ],
  },
  {
    title: say("Books"),
    entries: [
      ["/documents", say("Documents")],
      ["/statements", say("Statements")],
      ["/exports", say("Exports")],
      ["/saved-exports", say("Saved exports")],
      ["/exchange-rates", say("Exchange rates")],
    ],
  },
  {
    title: say("Money"),
    entries: [
      ["/wallet", say("Wallet")],
      ["/send", say("Send")],
      ["/payout", say("Payout")],
    ],
  },
  {
    title: say("Developers"),
    entries: [
      ["/developers/keys", say("API keys")],
      ["/developers/webhooks", say("Webhooks")],
    ],
  },
  {
    title: say("Account"),
    entries: [
      ["/members", say("Members")],
      ["/security", say("Security")],
      ["/settings", say("Settings")],
    ],
  },
];

type AppProps = {
  me: Me;
  /** Why the account could not be read again, so that the screen may be outdated, or why signing out failed. */
  fault: string | undefined;
  onRetry: () => void;
  onChange: () => void;
  onSignOut: () => void;
};

export function App({ me, fault, onRetry, onChange, onSignOut }: AppProps) {
  const { path, query } = usePlace();
  const [isMenuOpen, setMenuOpen] = useState(false);
  const merchantId = actingMerchant()?.merchantId;
  useLiveEvents(`${me.id}-${merchantId ?? "own"}`, forMerchant("/v1/events/stream"));
  useEffect(() => setMenuOpen(false), [path]);
  return (
    <>
      <a class="skip" href="#main">
        {say("Skip to content")}
      </a>
      <div class="frame">
        <aside class={isMenuOpen ? "open" : undefined}>
          <div class="brand">
            <span class="mark" aria-hidden="true">
              $
            </span>
            <span class="whose">
              <bdi title={me.displayName ?? undefined}>{me.displayName ?? page.serviceName}</bdi>
              {isTestOnly && <span class="status warn">{say("Test network")}</span>}
            </span>
            <button
              type="button"
              class="menu"
              aria-expanded={isMenuOpen}
              aria-controls="menu"
              onClick={() => setMenuOpen(!isMenuOpen)}
            >
              {isMenuOpen ? say("Close") : say("Menu")}
            </button>
          </div>
          <nav id="menu" aria-label={say("Screens")}>
            {offeredMenu().map(({ title, entries }) => (
              <div key={title}>
                <p>{title}</p>
                {entries.map(([to, text]) => (
                  <Link key={to} to={to} current={isCurrent(to, path)}>
                    {text}
                  </Link>
                ))}
              </div>
            ))}
            <div class="foot">
              <bdi class="who" title={me.email}>
                {me.email}
              </bdi>
              {me.merchants.length > 0 && (
                <Choice
                  label={say("Acting for")}
                  value={merchantId ?? ""}
                  onInput={(id) => chooseMerchant(me, id || undefined)}
                  options={[
                    ["", say("Your own account")] as const,
                    ...me.merchants.map((one) => [one.merchantId, one.name] as const),
                  ]}
                />
              )}
              <Button kind="quiet" onClick={onSignOut}>
                {say("Sign out")}
              </Button>
            </div>
          </nav>
        </aside>
        <main id="main" tabIndex={-1}>
          {fault && (
            <Notice kind="bad">
              <p>{fault}</p>
              <Button kind="quiet" onClick={onRetry}>
                {say("Try again")}
              </Button>
            </Notice>
          )}
          <Place path={path} query={query} me={me} onChange={onChange} />
        </main>
      </div>
      <Shortcuts />
      <PasskeyDialog email={me.email} />
    </>
  );
}

function offeredMenu() {
  return menu()
    .map(({ title, entries }) => ({ title, entries: entries.filter(([path]) => isOffered(path)) }))
    .filter(({ entries }) => entries.length > 0);
}

function isCurrent(to: string, path: string): boolean {
  return to === path || (to !== "/" && path.startsWith(`${to}/`));
}

function Place({ path, query, me, onChange }: Omit<ScreenProps, "id"> & { path: string }) {
  const [, linkId] = /^\/links\/([\w-]+)$/.exec(path) ?? [];
  const key = linkId ? "/links/:id" : path.replace(/(.)\/$/, "$1");
  if (!isOffered(key))
    return (
      <Screen title={say("Not for your role")}>
        <Empty title={say("Your role does not include this")} action={<Link to="/">{say("Overview")}</Link>}>
          {say("An owner of the account can change your role.")}
        </Empty>
      </Screen>
    );
  const Now = AT_ONCE[key];
  const props = { me, query, id: linkId ?? "", onChange };
  if (Now) return <Now key={path} {...props} />;
  const later = LATER_PATHS.find((one) => one === key);
  if (later)
    return (
      <Later placeholder={<Skeleton />}>
        {({ screens: { [later]: Part } }) => <Part key={key} {...props} />}
      </Later>
    );
  return (
    <Screen title={say("Not found")}>
      <Empty title={say("There is no such screen")} action={<Link to="/">{say("Overview")}</Link>}>
        {say("The address may be mistyped.")}
      </Empty>
    </Screen>
  );
}
