// A person who speaks in a conversation in place of its agent.
import type { Schemas, Session } from '../api/client';
import { myName } from './name';
import { who } from './who';

export type Takeover = Schemas['Takeover'];

export const takeoverOf = (session: Session | null) => (session?.takeover as Takeover | undefined) ?? null;
// Returns whether the person at this browser holds it: by this token, and under this name if several people share the token.
export const isMine = (takeover: Takeover) =>
  !!takeover.by && takeover.by === who.value?.id && takeover.name === (myName.value || who.value.id);
