// The daemon's epoch, with which ids of events begin.
import { signal } from '@preact/signals';
import { ask } from '../../api/client';

export const epoch = signal('');
void ask<{ epoch: string }>('/version').then(
  got => {
    epoch.value = got.epoch;
  },
  () => {},
);
