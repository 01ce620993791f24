/** The documented parameter `userId`: it may only name the caller, or the merchant that the caller acts for. */
import { z } from "zod";
import { ServiceError } from "../../core/domain/errors.ts";

export const userId = z.string().min(1).max(100);

export function refuseOtherUser(ownId: string, givenId: string | undefined): void {
  if (givenId === undefined || givenId === ownId) return;
  throw new ServiceError("FORBIDDEN", "userId must be your own", { details: { field: "userId" } });
}
