/** Properties of every screen, and the paths of those that are loaded later. */
import type { ComponentType } from "preact";
import type { Me } from "./session.tsx";

export type ScreenProps = {
  me: Me;
  query: URLSearchParams;
  /** Of the link in the path; empty elsewhere. */
  id: string;
  /** The account itself has changed: its name, its wallets. */
  onChange: () => void;
};

export type ScreenComponent = ComponentType<ScreenProps>;

export const LATER_PATHS = [
  "/transactions",
  "/documents",
  "/exports",
  "/saved-exports",
  "/exchange-rates",
  "/statements",
  "/wallet",
  "/send",
  "/payout",
  "/developers/keys",
  "/developers/webhooks",
  "/members",
  "/invitations",
  "/security",
  "/settings",
] as const;
export type LaterPath = (typeof LATER_PATHS)[number];
