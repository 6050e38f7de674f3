
node*
pod±ÑשÖ