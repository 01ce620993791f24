/** Properties of every screen. */
import type { Me } from "./session.tsx";

export type ScreenProps = {
  me: Me;
  query: URLSearchParams;
  /** Of the link in the path; empty elsewhere. */
  id: string;
  /** The account itself has changed: its name, its wallets. */
  onChange: () => void;
};
