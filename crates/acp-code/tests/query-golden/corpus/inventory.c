#include <stdlib.h>

struct shelf {
	struct list_head boxes;
	struct mutex lock;
	int count;
};

struct box {
	struct list_head link;
	struct shelf *owner;
	char *label;
};

static int weigh(const struct box *box);

static void box_free(struct box *box)
{
	if (!box)
		return;
	kfree(box->label);
	kfree(box);
}

static int shelf_fill(struct shelf *shelf, int count)
{
	struct box *box;
	int i, err = 0;

	if (shelf == NULL)
		return -1;
	mutex_lock(&shelf->lock);
	for (i = 0; i < count; i++) {
		box = malloc(sizeof(*box));
		if (box == NULL) {
			err = -2;
			goto out;
		}
		box->owner = shelf;
	}
	for (i = 0; i < count; i++)
		shelf->count += i;
	for (i = 1; i < count; i++)
		shelf->count -= i;
	list_sort(NULL, &shelf->boxes, weigh);
out:
	mutex_unlock(&shelf->lock);
	return err;
}

static struct shelf *shelf_of(struct list_head *head)
{
	struct shelf *shelf = container_of(head, struct shelf, boxes);

	// container_of(head, struct shelf, boxes) in a comment is no match
	if (head == NULL) return NULL;
	return shelf;
}

static int shelf_start(struct device *dev, struct shelf *shelf)
{
	struct clk *clk;

	clk = devm_clk_get(dev, "shelf");
	if (weigh(container_of(&shelf->boxes, struct box, link)) > 3)
		goto failed;
	shelf->count = 0;
	return 0;
failed:
	kfree(shelf);
	return -1;
}
