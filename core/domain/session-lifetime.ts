/** How long a session lasts: an hour after its last renewal, and never more than a day after the sign-in. A request in its last half hour renews it. */

/** From the last renewal. */
export const SESSION_LIFE_S = 3_600;
/** A request renews a session that ends sooner than this. */
export const SESSION_RENEWED_BELOW_S = 1_800;
/** From the sign-in; no renewal goes beyond it. */
export const SESSION_ABSOLUTE_LIFE_S = 86_400;
