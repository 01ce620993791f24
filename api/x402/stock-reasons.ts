import type { PaymentRefusal } from "../../core/domain/payment.ts";

/** Names stock x402 clients know for our refusals. */
const STOCK_REASONS: Partial<Record<PaymentRefusal, string>> = {
  INVALID_SIGNATURE: "invalid_exact_evm_payload_signature",
  NONCE_USED: "invalid_exact_evm_nonce_already_used",
  EXPIRED_TRANSFER: "invalid_exact_evm_payload_authorization_valid_before",
  NOT_YET_VALID: "invalid_exact_evm_payload_authorization_valid_after",
  AMOUNT_EXCEEDS_MAXIMUM: "invalid_exact_evm_payload_authorization_value_mismatch",
  AMOUNT_BELOW_REQUIRED: "invalid_exact_evm_payload_authorization_value_mismatch",
  RECIPIENT_MISMATCH: "invalid_exact_evm_payload_recipient_mismatch",
  NETWORK_MISMATCH: "invalid_network",
  INSUFFICIENT_FUNDS: "insufficient_funds",
  INVALID_PAYLOAD_STRUCTURE: "invalid_payload",
};

/** Our own code where x402 has no word for it. */
export function stockReason(refusal: PaymentRefusal): string {
  return STOCK_REASONS[refusal] ?? refusal;
}
