/** The numbers of the tax adviser, the client and the accounts; `payments` and the following are contra accounts of the wallet's account. */
export type DatevSettings = {
  consultantNumber: number;
  clientNumber: number;
  /** "01-01": month and day on which a fiscal year begins. */
  fiscalYearStart: string;
  accountLength: number;
  accounts: Record<"wallet" | "payments" | "received" | "sent" | "refunds" | "fees" | "rounding", string>;
};
