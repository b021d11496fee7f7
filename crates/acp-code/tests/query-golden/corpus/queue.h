/* A header is read as C, too. */
#ifndef QUEUE_H
#define QUEUE_H

static inline void queue_drop(struct queue *queue)
{
	mutex_lock(&queue->guard);
	kfree(queue->items);
	mutex_unlock(&queue->guard);
}

#endif
