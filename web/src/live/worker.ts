// The SharedWorker: holds the browser's one event stream and passes it to every tab.
import { Follower } from './follower';
import type { Asked, Told } from './protocol';

const tabs = new Set<MessagePort>();
const follower = new Follower((told: Told) => {
  for (const tab of tabs) tab.postMessage(told);
});

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = event => {
  const tab = event.ports[0]!;
  tabs.add(tab);
  tab.onmessage = ({ data }: MessageEvent<Asked>) => {
    if (data.kind === 'open') follower.open();
    if (data.kind === 'close') follower.close();
    if (data.kind === 'hello') tab.postMessage(follower.current());
    if (data.kind === 'bye') tabs.delete(tab);
  };
  tab.start();
};

self.addEventListener('online', () => follower.open());
