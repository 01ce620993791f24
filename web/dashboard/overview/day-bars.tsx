/** A bar for each day, and the same data as a table for screen readers. */
import { formatAmount, formatCount, formatDay, say } from "../frame/texts.ts";

type Day = { date: string; received: string; count: number };

const HEIGHT = 96;
const STEP = 20;
const BAR = 14;
const LEAST = 2;
const WEEK = 7;

type DayBarsProps = { days: readonly Day[]; title: string; isLoading: boolean };

export function DayBars({ days, title, isLoading }: DayBarsProps) {
  // only for heights and headings: a float is precise enough
  const amounts = days.map(({ received }) => Number(received));
  const highest = Math.max(...amounts, 0);
  const sum = (list: readonly number[]) => list.reduce((total, amount) => total + amount, 0).toFixed(6);
  if (isLoading) return <div class="bars" aria-hidden="true" />;
  return (
    <>
      <p class="sums">
        <span>
          <span class="muted">{say("7 days")}</span> <bdi>{formatAmount(sum(amounts.slice(-WEEK)))}</bdi>
        </span>
        <span>
          <span class="muted">{say("30 days")}</span> <bdi>{formatAmount(sum(amounts))}</bdi>
        </span>
        <span class="muted">USDC</span>
      </p>
      <svg
        class="bars"
        viewBox={`0 0 ${days.length * STEP} ${HEIGHT}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {days.map(({ date, received, count }, index) => {
          const amount = amounts[index] ?? 0;
          const height = amount > 0 ? Math.max(LEAST, (amount / highest) * (HEIGHT - LEAST)) : LEAST;
          return (
            <rect
              key={date}
              class={amount > 0 ? "some" : "none"}
              x={index * STEP + (STEP - BAR) / 2}
              y={HEIGHT - height}
              width={BAR}
              height={height}
            >
              <title>{`${formatDay(date)}: ${formatAmount(received)} USDC (${formatCount(count)})`}</title>
            </rect>
          );
        })}
      </svg>
      <p class="ends" aria-hidden="true">
        <span>{days[0] && formatDay(days[0].date)}</span>
        <span>{say("Today")}</span>
      </p>
      <table class="hidden">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">{say("Day")}</th>
            <th scope="col">USDC</th>
          </tr>
        </thead>
        <tbody>
          {days
            .filter(({ count }) => count > 0)
            .map(({ date, received }) => (
              <tr key={date}>
                <td>{formatDay(date)}</td>
                <td>{formatAmount(received)}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </>
  );
}
