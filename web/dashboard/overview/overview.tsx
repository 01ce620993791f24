/** The overview: recent payments and links that need attention; before the first payment, the next step. */

import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { nameOfNetwork, networkOf } from "../frame/page-data.ts";
import { Link } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { formatCount, say } from "../frame/texts.ts";
import { LinkRows } from "../links/link-rows.tsx";
import { Loading, Panel } from "../parts/forms.tsx";
import { Amount, Broken, explainUnread, Screen } from "../parts/page-parts.tsx";
import { Checklist } from "./checklist.tsx";
import { DayBars } from "./day-bars.tsx";
import { LinkExceptions } from "./link-exceptions.tsx";

const LATEST = 8;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function Overview({ me }: ScreenProps) {
  const stats = useLoad("GET /v1/payment-links/stats", { query: { by: "day", days: 30, timeZone: zone } });
  const links = useLoad("GET /v1/payment-links", { query: { limit: LATEST } });
  const isNew = stats.value !== undefined && stats.value.paidLinks === 0;
  const isUnknown = stats.error !== undefined && stats.value === undefined;
  const real = realNetworkBesideTest(me.wallets);
  const received = real
    ? say("Received on {network} in 30 days", { network: nameOfNetwork(real) })
    : say("Received in 30 days");
  const days = real
    ? stats.value?.daysByNetwork?.find(({ network }) => network === real)?.days
    : stats.value?.days;
  return (
    <Screen
      title={say("Overview")}
      actions={
        can("links:write") && (
          <Link to="/links?new=1" class="button main">
            {say("New payment link")}
          </Link>
        )
      }
    >
      {isNew && can("money:send") && <Checklist links={links.value?.links ?? []} />}
      <LinkExceptions />
      <section class="tiles" aria-label={say("Balances")}>
        {me.wallets.map(({ network }) => (
          <Balance key={network} network={network} />
        ))}
        <Tile
          title={say("Open links")}
          value={
            isUnknown ? "—" : stats.value && formatCount(stats.value.activeLinks + stats.value.pendingLinks)
          }
        >
          <Link to="/links?status=ACTIVE">{say("Show them")}</Link>
        </Tile>
        {real ? (
          <RealEarnings network={real} />
        ) : (
          <Tile
            title={say("Received through links")}
            value={isUnknown ? "—" : stats.value && <Amount of={stats.value.totalEarnings} />}
            unit
          >
            {stats.value && say("{count} paid", { count: formatCount(stats.value.paidLinks) })}
          </Tile>
        )}
      </section>
      <Panel title={received}>
        {stats.error && <Broken loaded={stats} />}
        {(stats.value || !stats.error) && (
          <DayBars days={days ?? []} title={received} isLoading={!stats.value} />
        )}
      </Panel>
      <Panel title={say("Latest links")} actions={<Link to="/links">{say("All links")}</Link>}>
        <Loading of={links} rows={4}>
          {({ links: latest }) =>
            latest.length > 0 ? (
              <LinkRows links={latest} />
            ) : (
              <p class="muted pad">{say("Links that you create appear here.")}</p>
            )
          }
        </Loading>
      </Panel>
    </Screen>
  );
}

type Network = ScreenProps["me"]["wallets"][number]["network"];

/** For who has wallets with test USDC and with real USDC: the network of the real one, which alone is summed up. */
function realNetworkBesideTest(wallets: readonly { network: Network }[]): Network | undefined {
  const isTest = ({ network }: { network: Network }) => networkOf(network)?.isTestnet === true;
  return wallets.some(isTest) ? wallets.find((wallet) => !isTest(wallet))?.network : undefined;
}

function RealEarnings({ network }: { network: Network }) {
  const loaded = useLoad("GET /v1/transactions/summary", {
    query: { types: ["PAYMENT_LINK"], statuses: ["CONFIRMED"], networks: [network] },
  });
  const { value, error } = loaded;
  const [sum] = value?.data.summary ?? [];
  return (
    <Tile
      title={say("Received through links")}
      value={error && !value ? "—" : value && <Amount of={sum?.amount ?? 0} />}
      unit
    >
      {error ? explainUnread(loaded) : nameOfNetwork(network)}
    </Tile>
  );
}

function Balance({ network }: { network: "base" | "base-sepolia" }) {
  const loaded = useLoad("GET /v1/wallets/balance", { query: { network } });
  const { value, error } = loaded;
  return (
    <Tile
      title={say("Balance on {network}", { network: nameOfNetwork(network) })}
      value={error && !value ? "—" : value && <Amount of={value.balance.amount} />}
      unit
    >
      {error ? explainUnread(loaded) : can("money:send") && <Link to="/send">{say("Send")}</Link>}
    </Tile>
  );
}

type TileProps = {
  title: string;
  value: preact.ComponentChildren;
  unit?: boolean;
  children?: preact.ComponentChildren;
};

function Tile({ title, value, unit, children }: TileProps) {
  return (
    <div class="tile">
      <h2>{title}</h2>
      <p class="figure">
        {value ?? <span class="dim">…</span>} {unit && <span class="unit">USDC</span>}
      </p>
      <p class="below">{children}</p>
    </div>
  );
}
