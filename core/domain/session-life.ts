/** How long a session lives. Every renewal begins the first anew, never past the second. */

/** Since the last renewal. */
export const SESSION_LIFE_S = 3_600;
/** Since the sign-in. */
export const SESSION_ABSOLUTE_LIFE_S = 86_400;
