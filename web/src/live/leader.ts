// Where there is no SharedWorker: the tab that gets the Web Lock holds the stream and passes it on by BroadcastChannel.
// When it closes, the browser gives the lock to the next tab, which resumes from the last id that it heard of.
import { Follower } from './follower';
import type { Asked, Told } from './protocol';

// Browsers have Web Locks only where a page is secure (https, or this machine): elsewhere every such tab has a stream of its own.
function alone(tell: (told: Told) => void): (asked: Asked) => void {
  const follower = new Follower(tell);
  return asked => {
    if (asked.kind === 'open') follower.open();
    if (asked.kind === 'close') follower.close();
    if (asked.kind === 'hello') tell(follower.current());
  };
}

export function lead(tell: (told: Told) => void): (asked: Asked) => void {
  if (!('locks' in navigator)) return alone(tell);
  const channel = new BroadcastChannel('sessiond.live');
  let follower: Follower | null = null;
  let wanted = false;
  let lastId = '';
  const everywhere = (told: Told) => {
    lastId = told.lastId || lastId;
    channel.postMessage({ told });
    tell(told);
  };
  const hear = (asked: Asked) => {
    if (asked.kind === 'open') {
      wanted = true;
      follower?.open();
    }
    if (asked.kind === 'close') {
      wanted = false;
      lastId = '';
      follower?.close();
    }
    if (asked.kind === 'hello' && follower) everywhere(follower.current());
  };
  channel.onmessage = ({ data }: MessageEvent<{ told?: Told; asked?: Asked }>) => {
    if (data.told) {
      lastId = data.told.lastId || lastId;
      tell(data.told);
    }
    if (data.asked) hear(data.asked);
  };
  void navigator.locks.request('sessiond.live', () => {
    follower = new Follower(everywhere);
    follower.lastId = lastId;
    if (wanted) follower.open();
    return new Promise(() => {}); // held as long as the tab lives
  });
  return asked => {
    hear(asked);
    channel.postMessage({ asked });
  };
}
