package main

// categories are the icons in the order of the town's categories.
var categories = []struct{ glyph, from, to string }{
	{"food", "#ff8a4c", "#e8501f"}, {"ktv", "#b06be8", "#7c3fc4"}, {"hair", "#ff7eb0", "#d94a85"}, {"gym", "#4fb3ff", "#1f7fd6"}, {"massage", "#4ecb9d", "#1f9c70"},
	{"spa", "#ff9cc2", "#e0629a"}, {"kids", "#ffc24a", "#f09a12"}, {"bar", "#6c7bf0", "#434fc4"}, {"party", "#ff7a6b", "#dc4638"}, {"nails", "#e68bd8", "#b551a6"},
}

// shop is what is drawn for a shop: its dish, and the sign over its door.
type shop struct{ motif, palette, glyph string }

// shops are in the order of the town's shops.
var shops = []shop{
	{"noodles", "sunrise", "food"}, {"hotpot", "rose", "food"}, {"skewers", "night", "food"}, {"coffee", "sand", "food"}, {"teapot", "moss", "food"},
	{"steamer", "mint", "food"}, {"fish", "teal", "food"}, {"claypot", "lemon", "food"}, {"bread", "sky", "food"}, {"ice", "berry", "food"},
	{"bubbletea", "plum", "food"}, {"sushi", "rose", "food"}, {"burger", "sky", "food"},
	{"microphone", "night", "ktv"}, {"disco", "neon", "ktv"}, {"headphones", "plum", "ktv"},
	{"scissors", "mint", "hair"}, {"dryer", "rose", "hair"}, {"barber", "sand", "hair"},
	{"dumbbell", "sunrise", "gym"}, {"yoga", "berry", "gym"}, {"climbing", "sky", "gym"}, {"pool", "lemon", "gym"}, {"shuttle", "teal", "gym"},
	{"footbath", "moss", "massage"}, {"stones", "mint", "massage"}, {"towels", "teal", "massage"},
	{"lotus", "rose", "spa"}, {"cream", "plum", "spa"},
	{"slide", "sky", "kids"}, {"horse", "lemon", "kids"}, {"blocks", "mint", "kids"},
	{"cocktail", "neon", "bar"}, {"beer", "night", "bar"},
	{"party", "berry", "party"}, {"gamepad", "neon", "party"},
	{"eye", "rose", "nails"}, {"polish", "plum", "nails"},
}

// avatars are the animals of the town's people.
var avatars = []struct{ animal, palette string }{
	{"owl", "lemon"}, {"bear", "sky"}, {"tiger", "mint"}, {"cat", "teal"}, {"panda", "rose"}, {"fox", "moss"},
	{"rabbit", "berry"}, {"frog", "sunrise"}, {"penguin", "sand"}, {"dog", "sky"}, {"pig", "mint"}, {"koala", "plum"},
}
