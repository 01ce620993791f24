/** How long a session lives. Every renewal begins the first anew, never past the second. */

/** Since the last renewal. */
export const SESSION_LIFE_S = 3_600;
/** A request renews a session that ends sooner than this. */
export const SESSION_RENEWED_BELOW_S = 1_800;
/** Since the sign-in. */
export const SESSION_ABSOLUTE_LIFE_S = 86_400;
